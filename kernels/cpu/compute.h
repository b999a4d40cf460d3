// From a Plan to the tile functions that compute it.
#ifndef QUANTD_KERNELS_CPU_COMPUTE_H_
#define QUANTD_KERNELS_CPU_COMPUTE_H_

#include "absl/status/status.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/device/backend.h"
#include "kernels/device/task.h"
#include "kernels/plan/plan.h"

namespace quantd::cpu {

// Turns the input into every byte of the output that is not padding, on all of
// the device's threads. `bases.signs` is not used. Errors are those of
// Job::Run.
absl::Status Compute(CpuDevice* device, const Plan& plan, JobBases bases,
                     JobReport* report);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_COMPUTE_H_
