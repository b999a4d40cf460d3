// The kernels of a job, for its whole plan or for one of its slabs, and the
// memory of their tables.
#ifndef QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_
#define QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/compute.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/prepared.h"
#include "kernels/cuda/queue.h"
#include "kernels/device/budget.h"
#include "kernels/device/memory.h"
#include "kernels/device/slabs.h"

namespace quantd::cuda {

class Kernels {
 public:
  // The plan must outlive this object. `gaps`: see Prepared.
  Kernels(const Plan& plan, const Device& device, bool gaps)
      : prepared_(plan, device.properties().shared_memory, gaps) {}

  // Takes the memory of the tables.
  absl::Status Take(Device& device) {
    // Tables that can never fit are an error at once: waiting does not help.
    if (auto s = CheckMemory("memory for tables of groups", "have fewer groups",
                             BlockPool::Charge(prepared_.device_bytes()),
                             device.table_memory().limit());
        !s.ok()) {
      return s;
    }
    absl::StatusOr<Block> host =
        device.table_pinned().Take(prepared_.host_bytes());
    if (!host.ok()) return host.status();
    absl::StatusOr<Block> resident =
        device.table_memory().Take(prepared_.device_bytes());
    if (!resident.ok()) return resident.status();
    host_ = *std::move(host);
    resident_ = *std::move(resident);
    return absl::OkStatus();
  }

  absl::Status Queue(const JobMemory& memory, const cuda::Queue& queue,
                     std::atomic<uint64_t>* rht_launches) {
    prepared_.Place(host_.data(), resident_.data());
    int launches = 0;
    QUANTD_CUDA_RETURN(QueueWork(&prepared_, memory, queue, &launches),
                       "launch");
    *rht_launches += launches;
    return absl::OkStatus();
  }

  const Recipe& recipe() const { return prepared_.recipe(); }

 private:
  Prepared prepared_;
  Block host_;  // pinned
  Block resident_;
};

// A slab of a job's rows, its kernels, and an event.
struct SlabOfJob {
  SlabOfJob(Slab s, const Device& device)
      : slab(std::move(s)), kernels(slab.plan, device, /*gaps=*/false) {}
  SlabOfJob(const SlabOfJob&) = delete;
  SlabOfJob& operator=(const SlabOfJob&) = delete;
  // The result of cudaEventDestroy is ignored: the event is no longer used.
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
  cudaEvent_t out = nullptr;  // recorded after the slab's copies out
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_JOB_KERNELS_H_
