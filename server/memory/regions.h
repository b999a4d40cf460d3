// Memory of clients' that the server works in, too, and events of their GPUs,
// by name. A name is a capability: 128 random bits that only their door's
// client was told.
//
// A region is mapped once, and page-locked for GPUs, when it is taken; that
// ends when its connection is over and no call uses it any more. Its size
// cannot change meanwhile: seals forbid it, so that no access can fault. What
// is in it may change at any time, and is never asked for a size, an index or a
// decision.
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

// Counts of all that is mapped and opened. Regions may outlive the door.
struct RegionUse {
  std::atomic<size_t> regions = 0;
  std::atomic<size_t> events = 0;
  std::atomic<size_t> bytes = 0;  // of the host's memory
  std::atomic<size_t> device_bytes = 0;
};

// What is taken of a connection. It is kept open until that ends: to the peer
// that waits at the other end, its end says that nobody reads or writes here
// any more.
struct Taking {
  std::shared_ptr<const Descriptor> connection;
  std::shared_ptr<RegionUse> use;
};

// Immutable.
class Region {
 public:
  struct Parts {
    Taking taking;  // first, so that it goes last
    bool writable = false;
    std::byte* data = nullptr;
    size_t size = 0;
    Descriptor memfd = Descriptor();                   // of the host's memory
    std::unique_ptr<DeviceMapping> mapping = nullptr;  // of a GPU's
  };
  explicit Region(Parts parts);
  ~Region();

  size_t size() const { return parts_.size; }
  bool writable() const { return parts_.writable; }
  // Whether its owner has left it all of its pages, so far: a job would have to
  // make those that are missing, on threads that others wait for. Never again,
  // once it has not.
  bool IsWhole() const;
  // Only within the region's size, and only where writable() to be written. Of
  // a GPU's memory it is the GPU's address, which the host must not read.
  std::byte* data() const { return parts_.data; }
  // The GPU that works on it, as "cuda:1"; empty: it is the host's.
  std::string device() const {
    return parts_.mapping ? parts_.mapping->device() : "";
  }
  // Whether GPUs copy from it by themselves: it is page-locked for them.
  bool page_locked() const { return locked_ && locked_->held(); }
  // Whether that GPU's jobs copy it, for it is memory of another one.
  bool of_peer() const { return parts_.mapping && parts_.mapping->of_peer(); }

 private:
  const Parts parts_;
  mutable std::atomic<bool> whole_ = true;
  std::optional<PageLock> locked_;  // of the host's memory
};

// An event of a client's on a GPU, by which its work and calls come one after
// the other: some wait for it, some record it. It is opened when it is taken,
// and closed as a region is unmapped. Immutable.
class SharedEvent {
 public:
  SharedEvent(Taking taking, std::unique_ptr<const EventMapping> mapping);
  ~SharedEvent();

  const EventMapping& mapping() const { return *mapping_; }
  bool Passed() const { return mapping_->Passed(); }
  const std::string& device() const { return mapping_->device(); }

 private:
  const Taking taking_;  // first, so that it goes last
  std::unique_ptr<const EventMapping> mapping_;
};

using Shared = std::variant<std::shared_ptr<const Region>,
                            std::shared_ptr<const SharedEvent>>;

// Maps or opens what was offered: memory of the host, which must be sealed and
// populated, a GPU's, or an event, for which `descriptor` may be none.
std::variant<Shared, wire::OfferReply> TakeOffer(const wire::Offer& offer,
                                                 Descriptor descriptor,
                                                 Taking taking);

class Regions {
 public:
  // Its name from now on. Empty: the system has no random numbers.
  std::string Add(Shared shared);
  // Calls that have found it keep it.
  void Remove(const std::string& name);
  // nullptr: there is none of that name, or not any more. A region's name is no
  // event's.
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
