#include "server/memory/places.h"

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

absl::StatusOr<std::shared_ptr<const Region>> FindRegion(
    const char* list, const wire::MemoryRange& range, const Regions& regions) {
  const std::string field = wire::FieldOf(list, range);
  auto region = regions.Find(range.region);
  if (region == nullptr) return wire::UnknownRegion(field);
  // By subtraction: offset + size may overflow.
  if (range.size > region->size() ||
      range.offset > region->size() - range.size) {
    return FieldError(fmt::format("{}.offset", field),
                      fmt::format("{} bytes inside a region of {}", range.size,
                                  region->size()),
                      fmt::format("offset {}", range.offset));
  }
  if (!region->IsWhole()) {
    return FieldError(fmt::format("{}.region", field),
                      "a region that has all of its pages, as when offered",
                      "one that has lost some of them");
  }
  return region;
}

}  // namespace

absl::StatusOr<Places> Places::Find(const wire::Request& request,
                                    const Regions& regions) {
  Places places;
  const wire::LentRanges& lent = request.lent;
  size_t on_device = 0;
  size_t page_locked = 0;
  for (size_t i = 0; i < lent.inputs.size(); ++i) {
    const wire::MemoryRange& range = lent.inputs[i];
    if (!range) {
      const std::string& literal = request.sources[i].literal;
      places.inputs_.emplace_back(
          reinterpret_cast<const std::byte*>(literal.data()), literal.size());
      continue;
    }
    auto region = FindRegion("inputs", range, regions);
    if (!region.ok()) return region.status();
    places.inputs_.emplace_back((*region)->data() + range.offset, range.size);
    places.input_bytes_ += range.size;
    page_locked += (*region)->page_locked();
    if (!(*region)->device().empty()) {
      places.device_ = (*region)->device();
      const auto at = reinterpret_cast<uintptr_t>(places.inputs_.back().data());
      on_device += !(*region)->of_peer() && at % kPayloadAlignment == 0;
    }
    places.regions_.push_back(*std::move(region));
  }
  places.inputs_on_device_ = on_device > 0 && on_device == lent.inputs.size();
  places.inputs_page_locked_ =
      page_locked > 0 && page_locked == lent.inputs.size();
  for (const wire::MemoryRange& range : lent.outputs) {
    if (!range) {
      places.outputs_.emplace_back();
      continue;
    }
    auto region = FindRegion("outputs", range, regions);
    if (!region.ok()) return region.status();
    if (!(*region)->writable()) {
      return FieldError(wire::FieldOf("outputs", range) + ".region",
                        "a region that the server may write to",
                        "one that is read-only");
    }
    places.outputs_.emplace_back((*region)->data() + range.offset, range.size);
    places.output_bytes_ += range.size;
    if (!(*region)->device().empty()) {
      places.outputs_on_device_ = true;
      if (places.device_.empty()) places.device_ = (*region)->device();
    }
    places.regions_.push_back(*std::move(region));
  }
  if (auto s = places.FindEvents(lent, regions); !s.ok()) return s;
  return places;
}

absl::Status Places::FindEvents(const wire::LentRanges& lent,
                                const Regions& regions) {
  const auto find = [&](std::string_view field, const std::string& name,
                        std::shared_ptr<const SharedEvent>* event) {
    if (name.empty()) return absl::OkStatus();
    *event = regions.FindEvent(name);
    if (*event == nullptr) return wire::UnknownEvent(field);
    if ((*event)->device() == device_) return absl::OkStatus();
    return FieldError(field,
                      device_.empty()
                          ? "none, as the call's memory is the host's"
                          : "an event of " + device_,
                      "one of " + (*event)->device());
  };
  if (auto s = find(wire::kWaitEvent, lent.wait_event, &wait_event_); !s.ok()) {
    return s;
  }
  return find(wire::kRecordEvent, lent.record_event, &record_event_);
}

}  // namespace quantd
