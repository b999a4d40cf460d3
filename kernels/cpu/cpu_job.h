// One job on the CPU.
#ifndef QUANTD_KERNELS_CPU_CPU_JOB_H_
#define QUANTD_KERNELS_CPU_CPU_JOB_H_

#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "kernels/device/backend.h"

namespace quantd::cpu {

// The blocks for input, output and scratch, with the plan's sizes. A block is
// empty if lent memory is used in place of it.
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
