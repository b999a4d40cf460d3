// An event of a client's on a GPU, by which its work and calls come one after
// the other: some wait for it, some record it. It is opened once, when it is
// taken; that ends when its connection is over and no call uses it any more.
#ifndef QUANTD_SERVER_MEMORY_SHARED_EVENT_H_
#define QUANTD_SERVER_MEMORY_SHARED_EVENT_H_

#include <memory>
#include <string>
#include <variant>

#include "kernels/device/device_memory.h"
#include "proto/memory/offer.h"
#include "server/memory/region.h"

namespace quantd {

// Immutable; any thread.
class SharedEvent {
 public:
  // Opens what was offered. The connection is kept as a Region keeps it.
  using Made =
      std::variant<std::shared_ptr<const SharedEvent>, wire::OfferReply>;
  static Made Open(const wire::Offer& offer, std::shared_ptr<RegionUse> use,
                   std::shared_ptr<const Descriptor> connection);
  SharedEvent(std::unique_ptr<const EventMapping> mapping,
              std::shared_ptr<RegionUse> use,
              std::shared_ptr<const Descriptor> connection);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  const EventMapping& mapping() const { return *mapping_; }
  bool Passed() const { return mapping_->Passed(); }
  const std::string& device() const { return mapping_->device(); }

 private:
  // First, so that it goes last.
  const std::shared_ptr<const Descriptor> connection_;
  const std::shared_ptr<RegionUse> use_;
  std::unique_ptr<const EventMapping> mapping_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_SHARED_EVENT_H_
