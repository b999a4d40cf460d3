// One GPU: its health and the resources that its jobs share. These are slots
// (streams and events), pinned and device memory, and cached rotations.
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

// Memory sources of a BlockPool. PinnedSource allocates page-locked host memory
// that every device can access. DeviceSource allocates on the device that is
// current when a block is taken. Blocks may be released from any thread at any
// time, even after the driver has shut down.
BlockSource PinnedSource();
BlockSource DeviceSource();

// The signs and the matrix of a rotation, in device memory that is released
// with its last owner.
struct CachedRht {
  Block memory;
  const float* signs = nullptr;  // n floats s[i] * n^-1/2
  const void* matrix = nullptr;  // n x n, row-major, in GetRht's dtype
};

// Streams, events and findings of one job at a time. Created once, then reused.
struct Slot {
  enum Mark { kStart, kFed, kComputed, kDone, kMarks };

  cudaStream_t stream = nullptr;
  // Streams of jobs that copy in, compute and copy out at the same time.
  cudaStream_t in = nullptr;
  cudaStream_t out = nullptr;
  cudaEvent_t passed = nullptr;  // lets one stream wait for another
  std::array<cudaEvent_t, kMarks> marks = {};
  uint32_t* tickets = nullptr;        // see Queue
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
    SharedMemory shared_memory = SharedMemory::kSmall;  // the most that a CTA
                                                        // may use
  };

  // Exclusive use of a slot. The destructor waits for the work on its streams.
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

  // The reason why a device cannot be opened: it does not exist, or this
  // program has no code for it. Empty if it can be opened.
  static std::string WhyNot(int ordinal);

  // Opens a device. Returns NOT_FOUND with the text of WhyNot if it cannot be
  // opened. `slots` is the maximum number of slots: one is created now, others
  // when they are first needed. `memory_limit`, in bytes, is the limit of each
  // of the four pools below.
  static absl::StatusOr<std::unique_ptr<Device>> Open(int ordinal, int slots,
                                                      size_t memory_limit);

  // Makes the device current on the calling thread. A thread must call this
  // before it uses the device's memory or streams.
  absl::Status Enter() const;

  // Leases a slot. The lease is empty when all slots are taken. Returns an
  // error if a new slot cannot be created.
  absl::StatusOr<Lease> TakeSlot();
  BlockPool& pinned() { return *pinned_; }
  BlockPool& memory() { return *memory_; }
  // Pools for tables and scratch memory. Only payloads may use pinned() and
  // memory(), because admission of payloads counts on all of their bytes.
  BlockPool& table_pinned() { return *table_pinned_; }
  BlockPool& table_memory() { return *table_memory_; }

  // Returns the rotation for (mask, dimension, dtype). A rotation that is not
  // cached is uploaded on the stream of `lease`, which must be idle.
  absl::StatusOr<std::shared_ptr<const CachedRht>> GetRht(const SignMask& mask,
                                                          int dimension,
                                                          DType dtype,
                                                          const Lease& lease);

  // Returns `status`, or UNAVAILABLE if `status` is an error and the device has
  // faulted. INVALID_ARGUMENT is always returned as it is.
  absl::Status HealthAfter(absl::Status status, const Lease& lease);
  // OK, or UNAVAILABLE once the device has faulted.
  absl::Status Health() const;

  const Properties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  uint64_t rht_hits() const { return rht_hits_; }
  uint64_t rht_misses() const { return rht_misses_; }

 private:
  using RhtKey = std::tuple<std::array<uint64_t, 2>, int, DType>;
  // Limits of the cache of rotations, in entries and in bytes. Clients choose
  // the masks, so the cache is emptied when it reaches a limit.
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
  // Created when needed: jobs that are being fed may need many, but rarely do.
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex rht_mutex_;
  std::map<RhtKey, std::shared_ptr<const CachedRht>> rhts_
      ABSL_GUARDED_BY(rht_mutex_);
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DEVICE_H_
