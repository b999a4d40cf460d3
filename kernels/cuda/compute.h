// Queues the kernels chosen for a plan, with their arguments.
#ifndef QUANTD_KERNELS_CUDA_COMPUTE_H_
#define QUANTD_KERNELS_CUDA_COMPUTE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/args.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/prepared.h"
#include "kernels/cuda/queue.h"
#include "kernels/device/task.h"

namespace quantd::cuda {

// A job's memory on the device.
struct JobMemory {
  JobBases payload;  // scratch is not set
  Findings* findings;
  // Whether findings are added to those of other rows of the tensor, or to
  // zeros. Otherwise they are zeroed first.
  bool findings_hold = false;
  // Whether the given amaxes are already in the output.
  bool has_given_amaxes = false;
};

// Queues all work that turns the input into every byte of the output, except
// for the host's part (WriteHistory of kernels/device/host_output.h), and fills
// the findings and the tables, whose places must be set. Does not wait. The
// tensor must not be empty. `*rht_launches`: the number of queued kernels that
// read the signs.
cudaError_t QueueWork(Prepared* prepared, const JobMemory& memory,
                      const Queue& queue, int* rht_launches);

// Queues again a part of what QueueWork has queued for the same job, for
// benchmarks of kernels. Since then the tables on the device must not have
// changed, nor, for kCopies, outputs other than codes and their block scales.
enum class Part {
  kKernels,  // everything but the copy of the tables to the device
  kCopies,   // the encoder and dbias: no zeros, no amax, no FP8 tensor scale
};
cudaError_t QueueAgain(const Prepared& prepared, const JobMemory& memory,
                       const Queue& queue, Part part);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_COMPUTE_H_
