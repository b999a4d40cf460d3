#include "client/bands/band_place.h"

#include <variant>

namespace quantd::client {
namespace {

// Whether the tensor has one line for each row of the matrix.
bool IsRows(TensorKind kind) {
  return kind == TensorKind::kInput || kind == TensorKind::kDequantized ||
         kind == TensorKind::kRotated;
}

}  // namespace

Part BandPlaces::PartOf(const TensorSpec& spec) const {
  if (IsRows(spec.kind) || IsCode(spec.kind)) return Part::kStrip;
  if (IsScale(spec.kind)) {
    const CopyKind copy = CopyOf(plan_, IsColumnwise(spec.kind));
    const bool one =
        copy.format.scaling == Scaling::kTensor ||
        (copy.format.scaling == Scaling::kChannel && copy.columnwise);
    return one ? Part::kSame : Part::kStrip;
  }
  if (!std::holds_alternative<DequantizeOptions>(plan_.options())) {
    return Part::kMaxima;
  }
  // A dequantization's amax input has one value, or one for each line.
  const auto& o = std::get<DequantizeOptions>(plan_.options());
  const bool lines = HasAmaxOfLines(*FindFormat(o.format), o.form);
  return lines && !HasColumnwise(o.usage) ? Part::kStrip : Part::kSame;
}

Strip BandPlaces::StripOf(const TensorSpec& spec, const Band& band) const {
  if (IsCode(spec.kind) || IsScale(spec.kind)) {
    const CopyWindow window(CopyOf(plan_, IsColumnwise(spec.kind)),
                            plan_.rows(), plan_.cols(),
                            {band.row, 0, band.rows, plan_.cols(), {}});
    return IsCode(spec.kind) ? window.Codes() : window.Scales();
  }
  const size_t row = spec.size / static_cast<size_t>(plan_.rows());
  Strip strip;
  strip.at = static_cast<size_t>(band.row) * row;
  strip.bytes = static_cast<size_t>(band.rows) * row;
  return strip;
}

std::vector<ZeroRun> BandPlaces::GapsOf(const TensorSpec& spec) const {
  if (!IsScale(spec.kind)) return {};
  const CopyKind copy = CopyOf(plan_, IsColumnwise(spec.kind));
  return ScalePadding(copy.format, copy.Geometry(plan_.rows(), plan_.cols()));
}

}  // namespace quantd::client
