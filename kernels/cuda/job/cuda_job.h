// One job on a GPU. Run queues copies in, kernels and copies out before it
// waits for any of them.
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

// Counters for all jobs of a backend.
struct JobCounts {
  std::atomic<uint64_t> jobs = 0;
  std::atomic<uint64_t> rht_launches = 0;
};

// Makes a job and takes its memory. `device` and `counts` must outlive the job.
// On success the job owns the lease. On an error, such as RESOURCE_EXHAUSTED,
// the caller keeps the lease.
absl::StatusOr<std::unique_ptr<Job>> MakeCudaJob(
    Device* device, JobCounts* counts, std::shared_ptr<const Plan> plan,
    LentMemory lent, Device::Lease* lease);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_CUDA_JOB_H_
