// From a Plan to the kernels that compute it.
#ifndef QUANTD_KERNELS_CUDA_COMPUTE_H_
#define QUANTD_KERNELS_CUDA_COMPUTE_H_

#include <cstddef>

#include "kernels/cuda/launch.h"
#include "kernels/plan.h"

namespace quantd::cuda {

// Where a plan's bytes are, all on the device.
struct JobMemory {
  const std::byte* in;  // plan.input_bytes(), laid out as plan.inputs() says
  std::byte* out;       // plan.output_bytes()
  const float* signs;   // of the plan's rotation; nullptr when it has none
  Found* found;
};

// Queues all that turns `in` into every byte of `out` and fills `found`. Waits
// for nothing. The tensor must not be empty. `*rht_launches`: kernels queued
// that read the signs.
cudaError_t QueuePlan(const Plan& plan, const JobMemory& memory,
                      const Queue& queue, int* rht_launches);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_COMPUTE_H_
