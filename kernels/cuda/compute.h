// Queues the kernels that were chosen for a plan, with their arguments.
#ifndef QUANTD_KERNELS_CUDA_COMPUTE_H_
#define QUANTD_KERNELS_CUDA_COMPUTE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/args.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/prepared.h"
#include "kernels/cuda/queue.h"
#include "kernels/device/task.h"

namespace quantd::cuda {

// What a job has on the device.
struct JobMemory {
  JobBases payload;  // without scratch
  Findings* findings;
  // Whether the findings are added to: they are those of other rows of the
  // tensor, or zeros. Otherwise they are zeroed first.
  bool findings_hold = false;
  // Whether the amaxes that were given are in the output.
  bool has_given_amaxes = false;
};

// Queues all that turns the input into every byte of the output, but for what
// is the host's (WriteHistory of kernels/device/host_output.h), and fills the
// findings. Waits for nothing. The tables have their place; they are filled
// here. The tensor must not be empty. `*rht_launches`: kernels queued that read
// the signs.
cudaError_t QueueWork(Prepared* prepared, const JobMemory& memory,
                      const Queue& queue, int* rht_launches);

// Queues once more a part of what QueueWork has queued for the same job, for
// benchmarks of kernels. Nobody has changed the tables on the device since then
// or, for kCopies, what of the output is neither codes nor their block scales.
enum class Part {
  kKernels,  // all but the tables' way to the device
  kCopies,   // what makes copies and dbias: no zeros, no amax and no FP8
             // tensor's scale
};
cudaError_t QueueAgain(const Prepared& prepared, const JobMemory& memory,
                       const Queue& queue, Part part);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_COMPUTE_H_
