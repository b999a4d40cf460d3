// Memory of a client's that the server works in, too.
//
// It is mapped once, and page-locked for GPUs, when it is taken; that ends when
// its connection is over and no call uses it any more. Its size cannot change
// meanwhile: seals forbid it, so that no access can fault. What is in it may
// change at any time, and is never asked for a size, an index or a decision.
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

namespace quantd {

// What is mapped and opened, in all. Regions may outlive who counts on it.
struct RegionUse {
  std::atomic<size_t> regions = 0;
  std::atomic<size_t> events = 0;
  std::atomic<size_t> bytes = 0;  // of the host's memory
  std::atomic<size_t> device_bytes = 0;
};

// A descriptor, or -1; closed on destruction, apart if a stranger decides how
// long that takes. Move-only.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1, bool apart = false)
      : fd_(fd), apart_(apart) {}
  Descriptor(Descriptor&& other) noexcept : Descriptor() {
    *this = std::move(other);
  }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
  bool apart_;
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

  size_t size() const { return size_; }
  bool writable() const { return writable_; }
  // Whether its owner has left it all of its pages, so far: a job would have to
  // make those that are missing, on threads that others wait for. Never again,
  // once it has not.
  bool IsWhole() const;
  // Only within the region's size, and only where writable() to be written. Of
  // a GPU's memory it is the GPU's address, which the host must not read.
  std::byte* data() const { return data_; }
  // The GPU that works on it, as "cuda:1"; empty: it is the host's.
  const std::string& device() const { return device_; }
  // Whether GPUs copy from it by themselves: it is page-locked for them.
  bool page_locked() const { return locked_ && locked_->held(); }
  // Whether that GPU's jobs copy it, for it is memory of another one.
  bool of_peer() const { return mapping_ != nullptr && mapping_->of_peer(); }

 private:
  Region(Descriptor memfd, std::byte* data, size_t size, bool writable,
         std::shared_ptr<RegionUse> use,
         std::shared_ptr<const Descriptor> connection);
  Region(std::unique_ptr<DeviceMapping> mapping, bool writable,
         std::shared_ptr<RegionUse> use,
         std::shared_ptr<const Descriptor> connection);
  static Made MapHost(const wire::Offer& offer, Descriptor memfd,
                      std::shared_ptr<RegionUse> use,
                      std::shared_ptr<const Descriptor> connection);
  static Made MapDevice(const wire::Offer& offer, int fd,
                        std::shared_ptr<RegionUse> use,
                        std::shared_ptr<const Descriptor> connection);

  // First, so that it goes last.
  const std::shared_ptr<const Descriptor> connection_;
  const std::shared_ptr<RegionUse> use_;
  const Descriptor memfd_;  // none: a GPU's memory
  mutable std::atomic<bool> whole_ = true;
  std::byte* const data_;
  const size_t size_;
  const bool writable_;
  const std::string device_;
  std::optional<PageLock> locked_;          // of the host's memory
  std::unique_ptr<DeviceMapping> mapping_;  // of a GPU's
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_REGION_H_
