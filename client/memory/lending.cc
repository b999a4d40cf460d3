#include "client/memory/lending.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

using Bytes = absl::Span<const std::byte>;

uintptr_t AddressOf(Bytes bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data());
}

bool Overlap(Bytes a, Bytes b) {
  return AddressOf(a) < AddressOf(b) + b.size() &&
         AddressOf(b) < AddressOf(a) + a.size();
}

// The value of an amax input that fits into a field of the request.
std::optional<float> AsField(const Plan& plan, size_t input, Bytes bytes) {
  const auto* const options = std::get_if<DequantizeOptions>(&plan.options());
  const TensorKind kind = plan.inputs()[input].kind;
  float amax = 0;
  if (options == nullptr || options->profile != Profile::kTe ||
      bytes.size() != sizeof(amax) ||
      (kind != TensorKind::kRowwiseAmax &&
       kind != TensorKind::kColumnwiseAmax)) {
    return std::nullopt;
  }
  std::memcpy(&amax, bytes.data(), sizeof(amax));
  if (!std::isfinite(amax) || amax < 0) return std::nullopt;
  return amax;
}

}  // namespace

struct SharedRegions::Found {
  Lending::Use use;
  wire::MemoryRange range;
};

void Lending::Lose() const {
  for (const Use& use : uses) use.region->Lose(use.connection);
}

void Lending::Settle() const {
  for (const Use& use : uses) use.region->Settle(use.connection);
}

void SharedRegions::Add(const std::shared_ptr<SharedRegion>& region) {
  std::lock_guard lock(mutex_);
  // Removes expired regions: the new region may have the address of one.
  std::erase_if(regions_, [](const auto& r) { return r.second.expired(); });
  regions_[AddressOf(region->bytes())] = region;
}

std::shared_ptr<SharedRegion> SharedRegions::RegionOf(Bytes bytes) {
  std::shared_ptr<SharedRegion> region;
  {
    std::lock_guard lock(mutex_);
    auto next = regions_.upper_bound(AddressOf(bytes));
    if (next == regions_.begin()) return nullptr;
    region = std::prev(next)->second.lock();
  }
  if (region == nullptr) return nullptr;
  const size_t offset = AddressOf(bytes) - AddressOf(region->bytes());
  const bool inside = offset <= region->bytes().size() &&
                      bytes.size() <= region->bytes().size() - offset;
  return inside ? region : nullptr;
}

bool SharedRegions::Holds(Bytes bytes) { return RegionOf(bytes) != nullptr; }

bool SharedRegions::Settled(Bytes bytes) {
  const auto region = RegionOf(bytes);
  return region == nullptr || !region->given_up();
}

std::optional<SharedRegions::Found> SharedRegions::Find(
    Bytes bytes, std::chrono::milliseconds patience) {
  std::shared_ptr<SharedRegion> region = RegionOf(bytes);
  if (region == nullptr) return std::nullopt;
  const size_t offset = AddressOf(bytes) - AddressOf(region->bytes());
  auto connection = region->Connection(patience);
  if (connection == nullptr) return std::nullopt;
  const std::string& name = connection->name();
  return Found{{std::move(region), connection}, {name, offset, bytes.size()}};
}

// Returns an error for GPU memory that is not lent, because a message cannot
// carry it.
absl::Status SharedRegions::CheckDevice(const Plan& plan,
                                        absl::Span<const Bytes> payload,
                                        absl::Span<const Destination> into,
                                        const Lending& lending) {
  const auto on_device = [&](Bytes bytes) {
    const auto region = bytes.empty() ? nullptr : RegionOf(bytes);
    return region != nullptr && !region->on_host();
  };
  constexpr std::string_view kWhy =
      "GPU memory shared with the server, aligned to its elements, not "
      "overlapped by an output, and with all inputs in shared memory";
  for (size_t i = 0; i < payload.size(); ++i) {
    if (!lending.ranges.inputs.empty() || !on_device(payload[i])) continue;
    return FieldError(Name(plan.inputs()[i].kind), std::string(kWhy),
                      "memory that cannot be lent");
  }
  for (size_t i = 0; i < into.size(); ++i) {
    if (!on_device(into[i].bytes)) continue;
    const TensorSpec* const part = plan.output(into[i].kind);
    const auto at = static_cast<size_t>(part - plan.outputs().data());
    const auto& outputs = lending.ranges.outputs;
    if (!outputs.empty() && outputs[at]) continue;
    return FieldError(fmt::format("into[{}]", i), std::string(kWhy),
                      "memory that cannot be lent");
  }
  return absl::OkStatus();
}

Lending SharedRegions::Lend(const Plan& plan, absl::Span<const Bytes> payload,
                            absl::Span<const Destination> into,
                            const CallEvents& events,
                            std::chrono::milliseconds patience) {
  Lending lending = LendAll(plan, payload, into, patience);
  lending.status = CheckDevice(plan, payload, into, lending);
  for (const Lending::Use& use : lending.uses) {
    lending.of_device |= !use.region->on_host();
  }
  if (lending.status.ok()) {
    lending.status = LendEvents(events, patience, &lending);
  }
  return lending;
}

absl::Status SharedRegions::LendEvents(const CallEvents& events,
                                       std::chrono::milliseconds patience,
                                       Lending* lending) {
  const std::pair<const DeviceEvent*, std::string*> both[] = {
      {events.wait, &lending->ranges.wait_event},
      {events.record, &lending->ranges.record_event}};
  for (const auto& [event, name] : both) {
    if (event == nullptr) continue;
    auto known = std::static_pointer_cast<SharedRegion>(event->owner());
    if (known == nullptr || !lending->of_device) {
      return FieldError("events",
                        "events of RegisterEvent, for a call on GPU memory",
                        known == nullptr ? "an event that is not registered"
                                         : "a call on host memory");
    }
    auto connection = known->Connection(patience);
    if (connection == nullptr) {
      return absl::UnavailableError(
          "a GPU event is no longer shared with the server");
    }
    *name = connection->name();
    lending->uses.push_back({std::move(known), std::move(connection)});
  }
  return absl::OkStatus();
}

Lending SharedRegions::LendAll(const Plan& plan,
                               absl::Span<const Bytes> payload,
                               absl::Span<const Destination> into,
                               std::chrono::milliseconds patience) {
  Lending lending;
  lending.payload.assign(payload.begin(), payload.end());
  for (const Destination& destination : into) {
    // An output that overlaps an input is not lent: the server would overwrite
    // the input before the result is complete. Nor are outputs that overlap
    // each other.
    const bool clear =
        std::none_of(
            payload.begin(), payload.end(),
            [&](Bytes in) { return Overlap(in, destination.bytes); }) &&
        std::none_of(into.begin(), into.end(), [&](const Destination& d) {
          return &d != &destination && Overlap(d.bytes, destination.bytes);
        });
    auto found = clear ? Find(destination.bytes, patience) : std::nullopt;
    if (!found || !found->use.region->writable()) continue;
    if (lending.ranges.outputs.empty()) {
      lending.ranges.outputs.resize(plan.outputs().size());
    }
    const TensorSpec* const part = plan.output(destination.kind);
    lending.ranges.outputs[part - plan.outputs().data()] =
        std::move(found->range);
    lending.uses.push_back(std::move(found->use));
  }
  std::vector<wire::MemoryRange> inputs;
  std::vector<Lending::Use> uses;
  std::optional<float> amax;
  for (size_t i = 0; i < payload.size(); ++i) {
    const bool aligned =
        AddressOf(payload[i]) % SizeOf(plan.inputs()[i].dtype) == 0;
    if (auto found = aligned ? Find(payload[i], patience) : std::nullopt) {
      inputs.push_back(std::move(found->range));
      uses.push_back(std::move(found->use));
    } else if (const auto value = AsField(plan, i, payload[i])) {
      amax = value;
      inputs.emplace_back();
    } else {
      return lending;
    }
  }
  lending.ranges.inputs = std::move(inputs);
  lending.amax = amax;
  lending.payload.clear();
  std::move(uses.begin(), uses.end(), std::back_inserter(lending.uses));
  return lending;
}

}  // namespace quantd::client
