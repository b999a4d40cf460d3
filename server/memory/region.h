// Memory of a client's that the server works in, too, and events of its GPU.
//
// A region is mapped once, and page-locked for GPUs, when it is taken; that
// ends when its connection is over and no call uses it any more. Its size
// cannot change meanwhile: seals forbid it, so that no access can fault. What
// is in it may change at any time, and is never asked for a size, an index or a
// decision.
#ifndef QUANTD_SERVER_MEMORY_REGION_H_
#define QUANTD_SERVER_MEMORY_REGION_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/types/span.h"
#include "kernels/device/device_memory.h"
#include "kernels/device/devices.h"
#include "proto/memory/offer.h"
#include "server/memory/descriptor.h"

namespace quantd {

// What is mapped and opened, in all. Regions may outlive who counts on it.
struct RegionUse {
  std::atomic<size_t> regions = 0;
  std::atomic<size_t> events = 0;
  std::atomic<size_t> bytes = 0;  // of the host's memory
  std::atomic<size_t> device_bytes = 0;
};

// Immutable; any thread.
class Region {
 public:
  // Maps what was offered: memory of the host, which must be sealed and
  // populated, or a GPU's, for which `descriptor` may be none. The connection
  // is kept open until it is unmapped: to whoever waits at the other end, its
  // end says that nobody reads or writes here any more.
  using Made = std::variant<std::shared_ptr<const Region>, wire::OfferReply>;
  static Made Map(const wire::Offer& offer, Descriptor descriptor,
                  std::shared_ptr<RegionUse> use,
                  std::shared_ptr<const Descriptor> connection);
  ~Region();
  Region(const Region&) = delete;

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
  struct Parts {
    // First, so that it goes last.
    std::shared_ptr<const Descriptor> connection;
    std::shared_ptr<RegionUse> use;
    bool writable = false;
    std::byte* data = nullptr;
    size_t size = 0;
    Descriptor memfd = Descriptor();                   // of the host's memory
    std::unique_ptr<DeviceMapping> mapping = nullptr;  // of a GPU's
  };
  explicit Region(Parts parts);
  static Made MapDevice(const wire::Offer& offer, int fd, Parts parts);
  static Made MapHost(const wire::Offer& offer, Descriptor memfd, Parts parts);

  const Parts parts_;
  mutable std::atomic<bool> whole_ = true;
  std::optional<PageLock> locked_;  // of the host's memory
};

// An event of a client's on a GPU, by which its work and calls come one after
// the other: some wait for it, some record it. It is opened once, when it is
// taken; that ends when its connection is over and no call uses it any more.
//
// Immutable; any thread.
class SharedEvent {
 public:
  using Made =
      std::variant<std::shared_ptr<const SharedEvent>, wire::OfferReply>;
  // Opens what was offered. The connection is kept as a Region keeps it.
  static Made Open(const wire::Offer& offer, std::shared_ptr<RegionUse> use,
                   std::shared_ptr<const Descriptor> connection);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  const EventMapping& mapping() const { return *mapping_; }
  bool Passed() const { return mapping_->Passed(); }
  const std::string& device() const { return mapping_->device(); }

 private:
  SharedEvent(std::unique_ptr<const EventMapping> mapping,
              std::shared_ptr<RegionUse> use,
              std::shared_ptr<const Descriptor> connection);

  // First, so that it goes last.
  const std::shared_ptr<const Descriptor> connection_;
  const std::shared_ptr<RegionUse> use_;
  std::unique_ptr<const EventMapping> mapping_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_REGION_H_
