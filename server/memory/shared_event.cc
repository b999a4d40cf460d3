#include "server/memory/shared_event.h"

#include <utility>

#include "absl/status/status.h"

namespace quantd {

SharedEvent::Made SharedEvent::Open(
    const wire::Offer& offer, std::shared_ptr<RegionUse> use,
    std::shared_ptr<const Descriptor> connection) {
  auto mapping = EventMapping::Open({offer.uuid, offer.ipc});
  if (!mapping.ok()) {
    const absl::Status& status = mapping.status();
    return wire::Refuse(absl::IsNotFound(status) ? wire::OfferAnswer::kDevice
                                                 : wire::OfferAnswer::kHandle,
                        std::string(status.message()));
  }
  return std::make_shared<const SharedEvent>(
      *std::move(mapping), std::move(use), std::move(connection));
}

SharedEvent::SharedEvent(std::unique_ptr<const EventMapping> mapping,
                         std::shared_ptr<RegionUse> use,
                         std::shared_ptr<const Descriptor> connection)
    : connection_(std::move(connection)),
      use_(std::move(use)),
      mapping_(std::move(mapping)) {
  ++use_->events;
}

SharedEvent::~SharedEvent() {
  mapping_.reset();
  --use_->events;
}

}  // namespace quantd
