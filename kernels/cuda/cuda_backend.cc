#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_mapping.h"
#include "kernels/cuda/job/cuda_job.h"
#include "kernels/cuda/job/staging.h"

namespace quantd::cuda {
namespace {

constexpr int kDefaultSlots = 4;

// The first device that was opened, or -1. PageLock makes this device current,
// because making another device current would allocate memory on it.
std::atomic<int> first_opened = -1;

class CudaBackend : public Backend {
 public:
  CudaBackend(BackendInfo info, std::unique_ptr<Device> device)
      : info_(std::move(info)), device_(std::move(device)) {}

  const BackendInfo& info() const override { return info_; }

  BackendStats stats() const override {
    BackendStats s;
    s.healthy = device_->Health().ok();
    s.jobs = counts_.jobs;
    s.rht_cache_hits = device_->rht_hits();
    s.rht_cache_misses = device_->rht_misses();
    s.rht_launches = counts_.rht_launches;
    s.pool_high_water = device_->pinned().high_water();
    return s;
  }

  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan,
                                             LentMemory lent) override {
    if (absl::Status s = device_->Health(); !s.ok()) return s;
    absl::StatusOr<Device::Lease> lease = device_->TakeSlot();
    if (!lease.ok()) return lease.status();
    if (!*lease) {
      return absl::ResourceExhaustedError(
          fmt::format("all {} slots of {} are taken", info_.slots, info_.name));
    }
    absl::StatusOr<std::unique_ptr<Job>> job = MakeCudaJob(
        device_.get(), &counts_, std::move(plan), std::move(lent), &*lease);
    if (!job.ok()) return device_->HealthAfter(job.status(), *lease);
    return job;
  }

  size_t PoolBytes(const Plan& plan, const LentMemory& lent) const override {
    return Staging::PoolBytes(device_->ordinal(), plan, lent);
  }

 private:
  const BackendInfo info_;
  const std::unique_ptr<Device> device_;
  const Served served_{device_->ordinal()};
  JobCounts counts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal,
                                              const BackendOptions& options) {
  const int slots = options.slots > 0 ? options.slots : kDefaultSlots;
  absl::StatusOr<std::unique_ptr<Device>> device =
      Device::Open(ordinal, slots + kFeedingJobs, options.memory_limit);
  if (!device.ok()) return device.status();
  const Device::Properties& p = (*device)->properties();
  BackendInfo info;
  info.name = fmt::format("cuda:{}", ordinal);
  info.kind = "cuda";
  info.description = fmt::format("{}, sm_{}{}", p.name, p.major, p.minor);
  info.slots = slots;
  info.feeding = kFeedingJobs;
  info.memory_limit = options.memory_limit;
  info.borrows = true;
  int none = -1;
  first_opened.compare_exchange_strong(none, ordinal);
  return std::make_unique<CudaBackend>(std::move(info), *std::move(device));
}

std::string UnavailableReason() { return Device::WhyNot(0); }

int DeviceCount() {
  int count = 0;
  if (!UnavailableReason().empty()) return 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool PageLock(void* memory, size_t bytes, bool writable) {
  const int device = first_opened;
  if (device < 0 || cudaSetDevice(device) != cudaSuccess) return false;
  unsigned flags = cudaHostRegisterPortable;
  if (!writable) flags |= cudaHostRegisterReadOnly;
  const cudaError_t error = cudaHostRegister(memory, bytes, flags);
  // Clears the error, so that no later call returns it.
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

void PageUnlock(void* memory) {
  // A failure is ignored: a driver that shuts down also unlocks the memory.
  if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();
}

}  // namespace quantd::cuda
