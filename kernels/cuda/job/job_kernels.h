// The kernels of a job, for its whole plan or for slabs of it, and what they
// look up on the device.
#ifndef QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_
#define QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/choice.h"
#include "kernels/cuda/compute.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/queue.h"
#include "kernels/cuda/tables.h"
#include "kernels/device/budget.h"
#include "kernels/device/memory.h"
#include "kernels/device/slabs.h"

namespace quantd::cuda {

class Kernels {
 public:
  // The plan must outlive it. `gaps`: the outputs lie in one block.
  Kernels(const Plan& plan, bool gaps) : work_(plan), tables_(work_, gaps) {}

  absl::Status Take(Device& device) {
    // No time helps where they never fit.
    if (auto s = CheckMemory("memory for tables of groups", "have fewer groups",
                             BlockPool::Charge(tables_.device_bytes()),
                             device.table_memory().limit());
        !s.ok()) {
      return s;
    }
    absl::StatusOr<Block> host =
        device.table_pinned().Take(tables_.host_bytes());
    if (!host.ok()) return host.status();
    absl::StatusOr<Block> resident =
        device.table_memory().Take(tables_.device_bytes());
    if (!resident.ok()) return resident.status();
    host_ = *std::move(host);
    resident_ = *std::move(resident);
    return absl::OkStatus();
  }

  absl::Status Queue(const JobMemory& memory, const cuda::Queue& queue,
                     std::atomic<uint64_t>* rht_launches) {
    tables_.Place(host_.data(), resident_.data());
    int launches = 0;
    QUANTD_CUDA_RETURN(QueueWork(work_, memory, queue, &tables_, &launches),
                       "launch");
    *rht_launches += launches;
    return absl::OkStatus();
  }

  const Recipe& recipe() const { return work_.recipe; }

 private:
  const Work work_;
  Tables tables_;
  Block host_;  // pinned
  Block resident_;
};

// A part of the plan's rows.
struct SlabOfJob {
  explicit SlabOfJob(Slab s)
      : slab(std::move(s)), kernels(slab.plan, /*gaps=*/false) {}
  SlabOfJob(const SlabOfJob&) = delete;
  SlabOfJob& operator=(const SlabOfJob&) = delete;
  // The result does not matter: an event that is not used any more.
  ~SlabOfJob() {
    if (out != nullptr) cudaEventDestroy(out);
  }

  absl::Status Take(Device& device) {
    QUANTD_CUDA_RETURN(
        cudaEventCreateWithFlags(
            &out, cudaEventBlockingSync | cudaEventDisableTiming),
        "create an event");
    return kernels.Take(device);
  }

  const Slab slab;
  Kernels kernels;
  cudaEvent_t out = nullptr;  // It has gone out.
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_
