// One job on the CPU.
#ifndef QUANTD_KERNELS_CPU_CPU_JOB_H_
#define QUANTD_KERNELS_CPU_CPU_JOB_H_

#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "kernels/device/backend.h"

namespace quantd::cpu {

// Blocks of the plan's input_bytes(), output_bytes() and scratch_bytes(); empty
// for memory that was lent and can be used in place.
struct JobBlocks {
  Block in;
  Block out;
  Block scratch;
  LentMemory lent;
  bool copies_inputs = false;  // copies lent inputs into `in`
};
std::unique_ptr<Job> MakeCpuJob(CpuDevice* device,
                                std::shared_ptr<const Plan> plan,
                                JobBlocks blocks);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CPU_JOB_H_
