#include "client/bands/band_join.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "fmt/format.h"
#include "kernels/plan/shards.h"

namespace quantd::client {
namespace {

void Zero(const std::vector<ZeroRun>& gaps, absl::Span<std::byte> bytes) {
  for (const ZeroRun& gap : gaps) {
    for (size_t i = 0; i < gap.count; ++i) {
      std::memset(bytes.data() + gap.offset + i * gap.pitch, 0, gap.width);
    }
  }
}

// Appends `device` to a list such as "cpu:0, cuda:1" unless it is there.
void AddDevice(const std::string& device, std::string* all) {
  if (all->empty()) {
    *all = device;
  } else if ((", " + *all + ",").find(" " + device + ",") ==
             std::string::npos) {
    *all += ", " + device;
  }
}

}  // namespace

BandJoin::BandJoin(const Plan& whole, const BandPlaces& places,
                   absl::Span<const Destination> into)
    : plan_(whole), places_(places), builder_(whole, into) {
  report_.bands = 0;
}

absl::Status BandJoin::Begin() {
  for (const TensorSpec& part : plan_.outputs()) {
    const auto bytes = builder_.Claim(part.kind);
    if (!builder_.status().ok()) return builder_.status();
    targets_.push_back(bytes);
    Zero(places_.GapsOf(part), bytes);
    if (places_.PartOf(part) == Part::kMaxima) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
  }
  return absl::OkStatus();
}

bool BandJoin::IsWritten(const TensorSpec& part, const Strip& strip,
                         const Plan& plan) const {
  const TensorSpec* own = plan.output(part.kind);
  return strip.count == 1 && own != nullptr && own->size == strip.bytes;
}

std::vector<Destination> BandJoin::PlacesOf(const Band& band,
                                            const Plan& plan) const {
  std::vector<Destination> places;
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TensorSpec& part = plan_.outputs()[i];
    if (places_.PartOf(part) != Part::kStrip) continue;
    const Strip strip = places_.StripOf(part, band);
    if (!IsWritten(part, strip, plan)) continue;
    places.push_back({part.kind, targets_[i].subspan(strip.at, strip.bytes)});
  }
  return places;
}

absl::Status BandJoin::Add(const Band& band, const Plan& plan,
                           const Result& result) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TensorSpec& part = plan_.outputs()[i];
    if (places_.PartOf(part) != Part::kStrip) continue;
    const Strip strip = places_.StripOf(part, band);
    if (IsWritten(part, strip, plan)) continue;
    const auto bytes = result.bytes(part.kind);
    const size_t end = (strip.count - 1) * strip.part_pitch + strip.bytes;
    const size_t whole =
        strip.at + (strip.count - 1) * strip.whole_pitch + strip.bytes;
    if (strip.count > 0 && (end > bytes.size() || whole > targets_[i].size())) {
      return absl::InternalError(
          fmt::format("{} of a band does not fit", Name(part.kind)));
    }
    Scatter(strip, bytes, targets_[i]);
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TensorSpec& part = plan_.outputs()[i];
    const auto to = targets_[i];
    switch (places_.PartOf(part)) {
      case Part::kStrip:
        break;
      case Part::kSame: {
        const auto bytes = result.bytes(part.kind);
        std::memcpy(to.data(), bytes.data(), std::min(to.size(), bytes.size()));
        break;
      }
      case Part::kMaxima:
        Raise({reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)},
              IsColumnwise(part.kind) ? 0 : band.row, result.amaxes(part.kind));
    }
  }
  ++report_.bands;
  report_.Add(result);
  AddDevice(result.device(), &report_.device);
  return absl::OkStatus();
}

absl::StatusOr<Result> BandJoin::Take(int sent) {
  report_.attempts += sent;
  return builder_.Take(std::move(report_));
}

}  // namespace quantd::client
