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
  JobBases payload;  // `scratch` is not set: Prepared sets it
  Findings* findings;
  // Whether `*findings` already holds zeros, or the findings of other rows of
  // the tensor. If false, QueueWork queues zeroing it first.
  bool findings_hold = false;
  // Whether the host has already written the given amaxes to the output.
  bool has_given_amaxes = false;
};

// Fills the tables of `prepared`, whose memory Prepared::Place must have set,
// and queues all work that writes the output and the findings. The host writes
// a few outputs itself later (kernels/device/host_output.h). Does not wait. The
// tensor must not be empty. `*rht_launches` receives the number of queued
// kernels that read the signs.
cudaError_t QueueWork(Prepared* prepared, const JobMemory& memory,
                      const Queue& queue, int* rht_launches);

// The part of a job's work that QueueAgain queues.
enum class Part {
  kKernels,  // everything except the copy of the tables to the device
  kCopies,   // the last kernels (encoder and dbias, decoder or rotation),
             // without zeroing, amaxes and FP8 tensor scales
};
// Queues a part of the work of an earlier QueueWork again, for benchmarks of
// kernels. The tables on the device must be unchanged since then. For kCopies,
// all outputs except codes and block scales must be unchanged, too.
cudaError_t QueueAgain(const Prepared& prepared, const JobMemory& memory,
                       const Queue& queue, Part part);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_COMPUTE_H_
