// One job on a GPU: copies in, kernels and copies out, all queued at once and
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

// Counters for all jobs of a backend.
struct JobCounts {
  std::atomic<uint64_t> jobs = 0;
  std::atomic<uint64_t> rht_launches = 0;
};

// Makes a job and takes its memory. Device and counts must outlive it. The job
// takes over the lease; on an error, RESOURCE_EXHAUSTED, it stays with the
// caller.
absl::StatusOr<std::unique_ptr<Job>> MakeCudaJob(
    Device* device, JobCounts* counts, std::shared_ptr<const Plan> plan,
    LentMemory lent, Device::Lease* lease);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_CUDA_JOB_H_
