#include "client/bands/band_place.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "kernels/plan/profile/profile.h"

namespace quantd::client {
namespace {

bool IsScale(TensorKind kind) {
  return kind == TensorKind::kRowwiseScale ||
         kind == TensorKind::kColumnwiseScale;
}

bool IsCode(TensorKind kind) {
  return kind == TensorKind::kRowwiseData ||
         kind == TensorKind::kColumnwiseData;
}

// Whether the tensor has one line for each row of the matrix.
bool IsRows(TensorKind kind) {
  return kind == TensorKind::kInput || kind == TensorKind::kDequantized ||
         kind == TensorKind::kRotated;
}

}  // namespace

BandPlaces::BandPlaces(const Plan& whole) : plan_(whole) {}

BandPlaces::Copy BandPlaces::CopyOf(TensorKind kind) const {
  const bool columnwise = kind == TensorKind::kColumnwiseData ||
                          kind == TensorKind::kColumnwiseScale;
  const DType input = plan_.tensor().dtype;
  if (const auto* o = std::get_if<DequantizeOptions>(&plan_.options())) {
    return {FormatUnder(o->profile, o->format, input), columnwise,
            o->inverse_rht ? o->rht_dimension : 0, o->form};
  }
  const auto& o = std::get<QuantizeOptions>(plan_.options());
  const bool rotated = columnwise ? o.rht.columnwise : o.rht.rowwise;
  return {FormatUnder(o.profile, o.format, input), columnwise,
          rotated ? o.rht.dimension : 0, o.form};
}

CopyGeometry BandPlaces::GeometryOf(const Copy& copy, int64_t rows) const {
  return MakeCopyGeometry(copy.format, copy.columnwise, rows, plan_.cols(),
                          copy.rotation, copy.form.scale_layout,
                          copy.form.compact_scales);
}

Part BandPlaces::PartOf(const TensorSpec& spec) const {
  if (IsRows(spec.kind) || IsCode(spec.kind)) return Part::kStrip;
  if (IsScale(spec.kind)) {
    const Copy copy = CopyOf(spec.kind);
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
  if (IsCode(spec.kind)) return CodesOf(CopyOf(spec.kind), band);
  if (IsScale(spec.kind)) return ScalesOf(CopyOf(spec.kind), band);
  const size_t row = spec.size / static_cast<size_t>(plan_.rows());
  Strip strip;
  strip.at = static_cast<size_t>(band.row) * row;
  strip.bytes = static_cast<size_t>(band.rows) * row;
  return strip;
}

Strip BandPlaces::CodesOf(const Copy& copy, const Band& band) const {
  const CopyGeometry whole = GeometryOf(copy, plan_.rows());
  const CopyGeometry part = GeometryOf(copy, band.rows);
  const auto row = static_cast<size_t>(band.row);
  Strip strip;
  if (copy.columnwise && copy.format.transposed) {
    // Each column's line holds a range of the band.
    const size_t packed = copy.format.element == DType::kE2M1x2 ? 2 : 1;
    strip.at = row / packed;
    strip.count = static_cast<size_t>(part.lines);
    strip.bytes = strip.band_pitch = static_cast<size_t>(part.data_line);
    strip.whole_pitch = static_cast<size_t>(whole.data_line);
    return strip;
  }
  strip.at = row * static_cast<size_t>(copy.columnwise ? whole.data_position
                                                       : whole.data_line);
  strip.bytes = part.data_bytes;
  return strip;
}

Strip BandPlaces::ScalesOf(const Copy& copy, const Band& band) const {
  const CopyGeometry whole = GeometryOf(copy, plan_.rows());
  const CopyGeometry part = GeometryOf(copy, band.rows);
  const size_t size = SizeOf(copy.format.scale);
  const bool columnwise = copy.columnwise;
  const int64_t block =
      columnwise && copy.format.block > 0 ? band.row / copy.format.block : 0;
  Strip strip;
  strip.at =
      static_cast<size_t>(ScaleIndex(whole, columnwise ? 0 : band.row, block)) *
      size;
  if (whole.swizzled && columnwise) {
    // Tiles of the band are adjacent within each group of 128 columns.
    const auto tiles = [](const CopyGeometry& g) {
      return static_cast<size_t>(CeilDiv(g.blocks, 4) * kSwizzledTile);
    };
    strip.count = static_cast<size_t>(CeilDiv(part.lines, 128));
    strip.bytes = strip.band_pitch = tiles(part) * size;
    strip.whole_pitch = tiles(whole) * size;
    return strip;
  }
  // The scales are a matrix. The band has some of its rows or columns.
  const bool together =
      whole.swizzled ||
      (columnwise ? whole.scale_block != 1 : whole.scale_block == 1) ||
      whole.scale_shape.size() == 1;
  if (together) {
    strip.bytes = part.scale_bytes;
    return strip;
  }
  // Copies no padding, which may overlap another band's scales.
  strip.count = static_cast<size_t>(part.scale_shape[0]);
  const int64_t width =
      columnwise ? part.blocks : CeilDiv(part.lines, part.scale_lines);
  strip.bytes = static_cast<size_t>(width) * size;
  strip.band_pitch = static_cast<size_t>(part.scale_shape[1]) * size;
  strip.whole_pitch = static_cast<size_t>(whole.scale_shape[1]) * size;
  return strip;
}

int64_t BandPlaces::FirstOf(const TensorSpec& spec, const Band& band) const {
  const bool of_columns = spec.kind == TensorKind::kColumnwiseAmax ||
                          spec.kind == TensorKind::kColumnwiseRhtAmax;
  return of_columns ? 0 : band.row;
}

std::vector<ZeroRun> BandPlaces::GapsOf(const TensorSpec& spec) const {
  if (!IsScale(spec.kind)) return {};
  const Copy copy = CopyOf(spec.kind);
  return ScalePadding(copy.format, GeometryOf(copy, plan_.rows()));
}

namespace {

template <typename Move>
void ForRuns(const Strip& strip, Move move) {
  for (size_t i = 0; i < strip.count; ++i) {
    move(strip.at + i * strip.whole_pitch, i * strip.band_pitch);
  }
}

}  // namespace

void Scatter(const Strip& strip, absl::Span<const std::byte> band,
             absl::Span<std::byte> whole) {
  ForRuns(strip, [&](size_t to, size_t from) {
    std::memcpy(whole.data() + to, band.data() + from, strip.bytes);
  });
}

void Gather(const Strip& strip, absl::Span<const std::byte> whole,
            absl::Span<std::byte> band) {
  ForRuns(strip, [&](size_t from, size_t to) {
    std::memcpy(band.data() + to, whole.data() + from, strip.bytes);
  });
}

}  // namespace quantd::client
