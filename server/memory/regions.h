// Clients' memory in which the server works, and their GPU events, by name. A
// name is a capability: 128 random bits, told only to the client whose
// connection brought it.
//
// A region is mapped once, and page-locked for GPUs, when it is offered. It is
// unmapped when its connection is closed and no call uses it any more. Seals
// fix its size, so no access can fault. Its contents may change at any time, so
// nothing in it is trusted as a size, an index or a condition.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_MEMORY_REGIONS_H_
#define QUANTD_SERVER_MEMORY_REGIONS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/device/device_memory.h"
#include "kernels/device/devices.h"
#include "proto/memory/offer.h"
#include "server/memory/descriptor.h"

namespace quantd {

// Counts of everything mapped and opened. Regions may outlive the door.
struct RegionUse {
  std::atomic<size_t> regions = 0;
  std::atomic<size_t> events = 0;
  std::atomic<size_t> bytes = 0;  // of host memory
  std::atomic<size_t> device_bytes = 0;
};

// A resource taken from a connection. The connection stays open while this
// exists, so its end tells the peer that nobody reads or writes the memory any
// more.
struct Taking {
  std::shared_ptr<const Descriptor> connection;
  std::shared_ptr<RegionUse> use;
};

// Immutable.
class Region {
 public:
  struct Parts {
    Taking taking;  // first, so that it is destroyed last
    bool writable = false;
    std::byte* data = nullptr;
    size_t size = 0;
    Descriptor memfd = Descriptor();                   // for host memory
    std::unique_ptr<DeviceMapping> mapping = nullptr;  // for a GPU's memory
  };
  explicit Region(Parts parts);
  ~Region();

  size_t size() const { return parts_.size; }
  bool writable() const { return parts_.writable; }
  // Whether all of its pages are still there. If the owner removed some, a job
  // would have to allocate them, on threads that others wait for. Once false it
  // stays false.
  bool IsWhole() const;
  // Must be accessed only within the region's size, and written only if
  // writable(). For a GPU's memory it is a device address, which the host must
  // not access.
  std::byte* data() const { return parts_.data; }
  // The GPU that works on it, such as "cuda:1"; empty for host memory.
  std::string device() const {
    return parts_.mapping ? parts_.mapping->device() : "";
  }
  // Whether it is page-locked, so that GPUs copy from it directly.
  bool page_locked() const { return locked_ && locked_->held(); }
  // Whether it is another GPU's memory, which jobs of device() copy.
  bool of_peer() const { return parts_.mapping && parts_.mapping->of_peer(); }

 private:
  const Parts parts_;
  mutable std::atomic<bool> whole_ = true;
  std::optional<PageLock> locked_;  // for host memory
};

// A client's GPU event that orders its work and calls: either side may record
// it and wait for it. Opened when offered, and closed when a region would be
// unmapped. Immutable.
class SharedEvent {
 public:
  SharedEvent(Taking taking, std::unique_ptr<const EventMapping> mapping);
  ~SharedEvent();

  const EventMapping& mapping() const { return *mapping_; }
  bool Passed() const { return mapping_->Passed(); }
  const std::string& device() const { return mapping_->device(); }

 private:
  const Taking taking_;  // first, so that it is destroyed last
  std::unique_ptr<const EventMapping> mapping_;
};

using Shared = std::variant<std::shared_ptr<const Region>,
                            std::shared_ptr<const SharedEvent>>;

// Maps or opens what was offered: host memory, which must be sealed and
// populated, a GPU's memory, or an event, for which `descriptor` may be empty.
std::variant<Shared, wire::OfferReply> TakeOffer(const wire::Offer& offer,
                                                 Descriptor descriptor,
                                                 Taking taking);

class Regions {
 public:
  // Returns its new name; empty if the system has no random numbers.
  std::string Add(Shared shared);
  // Removes the name. Calls that have found it keep what it names.
  void Remove(const std::string& name);
  // Returns null if there is no region of that name. Names of events and of
  // regions are distinct.
  std::shared_ptr<const Region> Find(const std::string& name) const {
    return Get<Region>(name);
  }
  std::shared_ptr<const SharedEvent> FindEvent(const std::string& name) const {
    return Get<SharedEvent>(name);
  }

 private:
  template <typename T>
  std::shared_ptr<const T> Get(const std::string& name) const {
    absl::MutexLock lock(&mutex_);
    const auto it = shared_.find(name);
    if (it == shared_.end()) return nullptr;
    const auto* found = std::get_if<std::shared_ptr<const T>>(&it->second);
    return found == nullptr ? nullptr : *found;
  }

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Shared> shared_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_REGIONS_H_
