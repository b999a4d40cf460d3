#include "client/tensors/copy_window.h"

#include <algorithm>

#include "kernels/plan/convert_scales.h"
#include "kernels/plan/profile/profile.h"

namespace quantd::client {
namespace {

CopyGeometry GeometryOf(const QuantizeOptions& o, bool columnwise, int64_t rows,
                        int64_t cols, DType input) {
  const bool rotated = columnwise ? o.rht.columnwise : o.rht.rowwise;
  return MakeCopyGeometry(FormatUnder(o.profile, o.format, input), columnwise,
                          rows, cols, rotated ? o.rht.dimension : 0,
                          o.form.scale_layout, o.form.compact_scales);
}

// Combines moves that are adjacent in both the whole and the piece.
class Runs {
 public:
  explicit Runs(const CopyWindow::Move& move) : move_(move) {}
  ~Runs() { Flush(); }
  void Add(size_t whole, size_t piece, size_t bytes) {
    if (whole != whole_ + bytes_ || piece != piece_ + bytes_) {
      Flush();
      whole_ = whole;
      piece_ = piece;
      bytes_ = 0;
    }
    bytes_ += bytes;
  }

 private:
  void Flush() {
    if (bytes_ > 0) move_(whole_, piece_, bytes_);
  }
  const CopyWindow::Move& move_;
  size_t whole_ = 0;
  size_t piece_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

CopyWindow::CopyWindow(const QuantizeOptions& options, bool columnwise,
                       int64_t rows, int64_t cols, DType input,
                       const Shard& piece)
    : format_(FormatUnder(options.profile, options.format, input)),
      whole_(GeometryOf(options, columnwise, rows, cols, input)),
      piece_(GeometryOf(options, columnwise, piece.rows, piece.cols, input)),
      line_(columnwise ? piece.column : piece.row),
      position_(columnwise ? piece.row : piece.column) {}

void CopyWindow::Codes(const Move& move) const {
  Runs runs(move);
  const int64_t packed = format_.element == DType::kE2M1x2 ? 2 : 1;
  const int64_t positions = piece_.padded / packed;
  const int64_t begin =
      line_ * whole_.data_line + position_ / packed * whole_.data_position;
  // One of the two strides is 1.
  const bool by_line = piece_.data_position == 1;
  const int64_t outer = by_line ? piece_.lines : positions;
  const int64_t inner = by_line ? positions : piece_.lines;
  for (int64_t i = 0; i < outer; ++i) {
    runs.Add(begin + i * (by_line ? whole_.data_line : whole_.data_position),
             i * (by_line ? piece_.data_line : piece_.data_position), inner);
  }
}

void CopyWindow::Scales(const Move& move) const {
  Runs runs(move);
  const size_t size = SizeOf(format_.scale);
  const int64_t block = format_.block == 0 ? 0 : position_ / format_.block;
  const int64_t step = std::max<int64_t>(1, piece_.scale_lines);
  const auto add = [&](int64_t l, int64_t b) {
    runs.Add(ScaleIndex(whole_, line_ + l, block + b) * size,
             ScaleIndex(piece_, l, b) * size, size);
  };
  if (piece_.scale_line == 1 && !piece_.swizzled) {
    for (int64_t b = 0; b < piece_.blocks; ++b) {
      for (int64_t l = 0; l < piece_.lines; l += step) add(l, b);
    }
    return;
  }
  for (int64_t l = 0; l < piece_.lines; l += step) {
    for (int64_t b = 0; b < piece_.blocks; ++b) add(l, b);
  }
}

}  // namespace quantd::client
