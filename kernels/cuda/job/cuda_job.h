// One job on a GPU: copies in, kernels and copies out, queued at once and
// waited for once.
#ifndef QUANTD_KERNELS_CUDA_JOB_CUDA_JOB_H_
#define QUANTD_KERNELS_CUDA_JOB_CUDA_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device.h"
#include "kernels/device/backend.h"
#include "quantd/plan.h"

namespace quantd::cuda {

// What jobs of a backend count.
struct JobCounts {
  std::atomic<uint64_t> jobs = 0;
  std::atomic<uint64_t> rht_launches = 0;
};

// Takes the memory of a job. Device and counts outlive it. The lease goes to
// the job; where there is none, it stays with the caller. RESOURCE_EXHAUSTED.
absl::StatusOr<std::unique_ptr<Job>> MakeCudaJob(
    Device* device, JobCounts* counts, std::shared_ptr<const Plan> plan,
    LentMemory lent, Device::Lease* lease);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_CUDA_JOB_H_
