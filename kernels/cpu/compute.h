// Computes a Plan with the functions of kernels/cpu/tiles.h.
#ifndef QUANTD_KERNELS_CPU_COMPUTE_H_
#define QUANTD_KERNELS_CPU_COMPUTE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/device/backend.h"
#include "kernels/device/task.h"
#include "quantd/plan.h"

namespace quantd::cpu {

// Computes every output byte except padding, on all threads of the device.
// Increments `*pieces` for each finished piece. `bases.signs` is ignored.
// Errors are those of Job::Run.
absl::Status Compute(CpuDevice* device, const Plan& plan, JobBases bases,
                     JobReport* report, std::atomic<uint64_t>* pieces);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_COMPUTE_H_
