// From a Plan to the kernels that compute it.
#ifndef QUANTD_KERNELS_CUDA_COMPUTE_H_
#define QUANTD_KERNELS_CUDA_COMPUTE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/findings.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/route.h"
#include "kernels/cuda/tables.h"
#include "kernels/plan.h"
#include "kernels/task.h"

namespace quantd::cuda {

// What a job has on the device.
struct JobMemory {
  JobBases payload;    // without scratch
  Findings* findings;  // zeroed here
};

// Queues all that turns the input into every byte of the output, but for what
// is the host's (kernels/cuda/host_output.h), and fills the findings. Waits
// for nothing. `tables` have their place; they are filled here. The tensor
// must not be empty. `*rht_launches`: kernels queued that read the signs.
cudaError_t QueuePlan(const Plan& plan, const Route& route,
                      const JobMemory& memory, const Queue& queue,
                      Tables* tables, int* rht_launches);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_COMPUTE_H_
