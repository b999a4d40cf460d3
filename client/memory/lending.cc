#include "client/memory/lending.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <variant>

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

// The value of an input that a request may have as a field.
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

struct HostRegions::Found {
  Lending::Use use;
  wire::MemoryRange range;
};

void Lending::Lose() const {
  for (const Use& use : uses) use.region->Lose(use.connection);
}

void Lending::Settle() const {
  for (const Use& use : uses) use.region->Settle(use.connection);
}

void HostRegions::Add(const std::shared_ptr<HostRegion>& region) {
  std::lock_guard lock(mutex_);
  // What is gone may lie where the new one is.
  std::erase_if(regions_, [](const auto& r) { return r.second.expired(); });
  regions_[AddressOf(region->bytes())] = region;
}

std::optional<HostRegions::Found> HostRegions::Find(
    Bytes bytes, std::chrono::milliseconds patience) {
  std::shared_ptr<HostRegion> region;
  {
    std::lock_guard lock(mutex_);
    auto next = regions_.upper_bound(AddressOf(bytes));
    if (next == regions_.begin()) return std::nullopt;
    region = std::prev(next)->second.lock();
  }
  if (region == nullptr) return std::nullopt;
  const size_t offset = AddressOf(bytes) - AddressOf(region->bytes());
  if (offset > region->bytes().size() ||
      bytes.size() > region->bytes().size() - offset) {
    return std::nullopt;
  }
  auto connection = region->Connection(patience);
  if (connection == nullptr) return std::nullopt;
  const std::string& name = connection->name();
  return Found{{std::move(region), connection}, {name, offset, bytes.size()}};
}

Lending HostRegions::Lend(const Plan& plan, absl::Span<const Bytes> payload,
                          absl::Span<const Destination> into,
                          std::chrono::milliseconds patience) {
  Lending lending;
  lending.payload.assign(payload.begin(), payload.end());
  for (const Destination& destination : into) {
    // The caller may want a tensor replaced by what is made of it.
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
