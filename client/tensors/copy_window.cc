#include "client/tensors/copy_window.h"

#include <cstring>
#include <variant>

#include "kernels/plan/profile/profile.h"

namespace quantd::client {
namespace {

template <typename Move>
void ForRuns(const Strip& strip, Move move) {
  for (size_t i = 0; i < strip.count; ++i) {
    move(strip.at + i * strip.whole_pitch, i * strip.part_pitch);
  }
}

// Joins the runs into a single one of `size` bytes, the size of the part, if
// their distance is the same in the whole and in the part. `complete` means
// that only padding lies between them, in the whole as in the part.
Strip Joined(Strip strip, bool complete, size_t size) {
  if (complete && strip.whole_pitch == strip.part_pitch) {
    strip.count = 1;
    strip.bytes = size;
  }
  return strip;
}

}  // namespace

void Scatter(const Strip& strip, absl::Span<const std::byte> part,
             absl::Span<std::byte> whole) {
  ForRuns(strip, [&](size_t to, size_t from) {
    std::memcpy(whole.data() + to, part.data() + from, strip.bytes);
  });
}

void Gather(const Strip& strip, absl::Span<const std::byte> whole,
            absl::Span<std::byte> part) {
  ForRuns(strip, [&](size_t from, size_t to) {
    std::memcpy(part.data() + to, whole.data() + from, strip.bytes);
  });
}

CopyGeometry CopyKind::Geometry(int64_t rows, int64_t cols) const {
  return MakeCopyGeometry(format, columnwise, rows, cols, rotation,
                          form.scale_layout, form.compact_scales);
}

CopyKind CopyOf(const QuantizeOptions& o, DType input, bool columnwise) {
  const bool rotated = columnwise ? o.rht.columnwise : o.rht.rowwise;
  return {FormatUnder(o.profile, o.format, input), columnwise,
          rotated ? o.rht.dimension : 0, o.form};
}

CopyKind CopyOf(const Plan& plan, bool columnwise) {
  const DType input = plan.tensor().dtype;
  if (const auto* o = std::get_if<DequantizeOptions>(&plan.options())) {
    return {FormatUnder(o->profile, o->format, input), columnwise,
            o->inverse_rht ? o->rht_dimension : 0, o->form};
  }
  return CopyOf(std::get<QuantizeOptions>(plan.options()), input, columnwise);
}

CopyWindow::CopyWindow(const CopyKind& copy, int64_t rows, int64_t cols,
                       const Shard& part)
    : format_(copy.format),
      whole_(copy.Geometry(rows, cols)),
      part_(copy.Geometry(part.rows, part.cols)),
      line_(copy.columnwise ? part.column : part.row),
      position_(copy.columnwise ? part.row : part.column) {}

Strip CopyWindow::Codes() const {
  const int64_t packed = format_.element == DType::kE2M1x2 ? 2 : 1;
  // Either data_position or data_line is 1, so runs go along the lines or
  // across them.
  const bool along = whole_.data_position == 1;
  const auto lines = static_cast<size_t>(part_.lines);
  const auto positions = static_cast<size_t>(part_.padded / packed);
  Strip strip;
  strip.at = static_cast<size_t>(line_ * whole_.data_line +
                                 position_ / packed * whole_.data_position);
  strip.count = along ? lines : positions;
  strip.bytes = along ? positions : lines;
  strip.whole_pitch =
      static_cast<size_t>(along ? whole_.data_line : whole_.data_position);
  strip.part_pitch =
      static_cast<size_t>(along ? part_.data_line : part_.data_position);
  return Joined(strip, true, part_.data_bytes);
}

Strip CopyWindow::Scales() const {
  const size_t size = SizeOf(format_.scale);
  const auto bytes = [&](int64_t scales) {
    return static_cast<size_t>(scales) * size;
  };
  const int64_t block = format_.block == 0 ? 0 : position_ / format_.block;
  Strip strip;
  strip.at = bytes(ScaleIndex(whole_, line_, block));
  if (whole_.swizzled) {
    const auto row_of_tiles = [&](const CopyGeometry& copy) {
      return bytes(CeilDiv(copy.blocks, 4) * kSwizzledTile);
    };
    strip.count = static_cast<size_t>(CeilDiv(part_.lines, 128));
    strip.bytes = strip.part_pitch = row_of_tiles(part_);
    strip.whole_pitch = row_of_tiles(whole_);
    return Joined(strip, true, part_.scale_bytes);
  }
  // Linear scales are a matrix whose rows go along the lines or across them.
  // Padding is not copied, because in the whole another part may have scales
  // there.
  const bool along = whole_.scale_block == 1;
  const auto width = [&](const CopyGeometry& copy) {
    return along ? copy.blocks : CeilDiv(copy.lines, copy.scale_lines);
  };
  strip.count = static_cast<size_t>(
      along ? CeilDiv(part_.lines, part_.scale_lines) : part_.blocks);
  strip.bytes = bytes(width(part_));
  strip.whole_pitch = bytes(along ? whole_.scale_line : whole_.scale_block);
  strip.part_pitch = bytes(along ? part_.scale_line : part_.scale_block);
  return Joined(strip, width(part_) == width(whole_), part_.scale_bytes);
}

}  // namespace quantd::client
