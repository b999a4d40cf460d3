// The resources of one GPU for its jobs: slots (a stream each), pinned and
// device memory, cached rotations; and its health.
#ifndef QUANTD_KERNELS_CUDA_DEVICE_H_
#define QUANTD_KERNELS_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/kernels.h"
#include "kernels/device/memory.h"
#include "quantd/format.h"
#include "quantd/sign_mask.h"

namespace quantd::cuda {

// Sources of memory: page-locked host memory that every device may read, and
// memory of the device that is current when a block is taken. Blocks of both
// may be released from any thread at any time, even after the driver has gone.
BlockSource PinnedSource();
BlockSource DeviceSource();

// A rotation for kernels, on the device until its last owner is gone.
struct CachedRht {
  Block memory;
  const float* signs = nullptr;  // n floats s[i] * n^-1/2
  const void* matrix = nullptr;  // n x n row-major, in the key's dtype
};

// Streams, events and findings for one job at a time. Made once.
struct Slot {
  enum Mark { kStart, kFed, kComputed, kDone, kMarks };

  cudaStream_t stream = nullptr;
  // Streams for copies, used by jobs that copy in, compute and copy out at the
  // same time.
  cudaStream_t in = nullptr;
  cudaStream_t out = nullptr;
  cudaEvent_t passed = nullptr;  // for one stream to wait for another
  std::array<cudaEvent_t, kMarks> marks = {};
  Findings* findings = nullptr;       // on the device
  Findings* findings_host = nullptr;  // in pinned memory

  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot();
  absl::Status Create();
};

// Thread-safe. Must outlive the leases taken from it.
class Device {
 public:
  struct Properties {
    std::string name;  // the vendor's name, "NVIDIA H200"
    int major = 0;     // compute capability
    int minor = 0;
    int multiprocessors = 0;
    SharedMemory shared_memory = SharedMemory::kSmall;  // most that a CTA may
                                                        // have
  };

  // A slot. Destruction waits for the work that is still on its stream.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(device_, other.device_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Lease();
    explicit operator bool() const { return slot_ != nullptr; }
    Slot* operator->() const { return slot_; }
    const Slot& operator*() const { return *slot_; }

   private:
    friend class Device;
    Device* device_ = nullptr;
    Slot* slot_ = nullptr;
  };

  // The reason why there is no such device or this program has no code for it;
  // empty if it can be opened.
  static std::string WhyNot(int ordinal);

  // Opens a device. NOT_FOUND with the text of WhyNot. `slots`: the most slots;
  // one is made now, others when they are first needed. `memory_limit` bounds
  // pinned and device memory each, and separately the memory of jobs there
  // beside payloads.
  static absl::StatusOr<std::unique_ptr<Device>> Open(int ordinal, int slots,
                                                      size_t memory_limit);

  // Makes the device current on this thread. Call before anything else here.
  absl::Status Enter() const;

  // A lease on a slot, empty when all are taken. Errors are those of making a
  // slot.
  absl::StatusOr<Lease> TakeSlot();
  BlockPool& pinned() { return *pinned_; }
  BlockPool& memory() { return *memory_; }
  // Pools for tables and scratch. Payloads are admitted by the size of their
  // own pools, so nothing else may come out of those.
  BlockPool& table_pinned() { return *table_pinned_; }
  BlockPool& table_memory() { return *table_memory_; }

  // The rotation for (mask, dimension, dtype). If it is not cached, it is
  // uploaded on the stream of `lease`, which must be idle.
  absl::StatusOr<std::shared_ptr<const CachedRht>> GetRht(const SignMask& mask,
                                                          int dimension,
                                                          DType dtype,
                                                          const Lease& lease);

  // Returns `status`, after checking, if it is an error, whether the device
  // still works. Once it does not, every error is UNAVAILABLE.
  absl::Status HealthAfter(absl::Status status, const Lease& lease);
  // OK, or UNAVAILABLE once the device has faulted.
  absl::Status Health() const;

  const Properties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  uint64_t rht_hits() const { return rht_hits_; }
  uint64_t rht_misses() const { return rht_misses_; }

 private:
  using RhtKey = std::tuple<std::array<uint64_t, 2>, int, DType>;
  // Masks come from clients, so the cache is bounded: it is emptied when it is
  // full, by number or by bytes.
  static constexpr size_t kMaxRhts = 1024;
  static constexpr size_t kRhtBytes = size_t{32} << 20;

  Device(int ordinal, int slots) : ordinal_(ordinal), most_slots_(slots) {}
  absl::StatusOr<std::shared_ptr<const CachedRht>> MakeRht(const SignMask& mask,
                                                           int dimension,
                                                           DType dtype,
                                                           const Lease& lease);

  const int ordinal_;
  const int most_slots_;
  Properties properties_;
  std::shared_ptr<BlockPool> pinned_;
  std::shared_ptr<BlockPool> memory_;
  std::shared_ptr<BlockPool> table_pinned_;
  std::shared_ptr<BlockPool> table_memory_;
  std::shared_ptr<BlockPool> rht_memory_;
  std::atomic<uint64_t> rht_hits_ = 0;
  std::atomic<uint64_t> rht_misses_ = 0;

  mutable absl::Mutex mutex_;
  // Only as many as were in use at once: fed jobs may need many, but rarely do.
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex rht_mutex_;
  std::map<RhtKey, std::shared_ptr<const CachedRht>> rhts_
      ABSL_GUARDED_BY(rht_mutex_);
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DEVICE_H_
