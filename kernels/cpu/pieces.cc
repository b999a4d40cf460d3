#include "kernels/cpu/pieces.h"

#include <algorithm>

#include "kernels/cpu/slice.h"
#include "kernels/cpu/tiles.h"

namespace quantd::cpu {
namespace {

// The least number of elements of a piece that is worth waking a thread.
constexpr int64_t kLeast = int64_t{1} << 17;
static_assert(kLeast % kSliceUnit == 0);

// The most rows of a piece. The columnwise scales of NVFP4 for this many rows
// fill a cache line, so two threads do not write to the same line at a time.
constexpr int64_t kMostRows = 1024;

}  // namespace

std::vector<Piece> CutPieces(const Plan& plan, int threads, Cut cut) {
  const int64_t cols = plan.cols();
  std::vector<Piece> pieces;
  if (cols == 0) return pieces;
  const int64_t least =
      std::max<int64_t>(1, kLeast / (kTileRows * cols)) * kTileRows;
  int64_t left = 0;
  for (const Group& group : plan.groups()) left += group.rows;
  for (size_t g = 0; g < plan.groups().size(); ++g) {
    const int64_t rows = plan.groups()[g].rows;
    if (rows == 1 && cut == kCutRows) {
      for (int64_t col = 0; col < cols; col += kLeast) {
        pieces.push_back({g, 0, 1, col, std::min(kLeast, cols - col)});
      }
      --left;
      continue;
    }
    // Within a group the step is only ever halved, so that every piece starts
    // at a multiple of its number of rows.
    int64_t step = least;
    while (2 * step <= std::min(kMostRows, left / threads)) step *= 2;
    for (int64_t row = 0; row < rows;) {
      while (step > least && step > left / threads) step /= 2;
      const int64_t end = std::min(rows, row + step);
      pieces.push_back({g, row, end, 0, cols});
      left -= end - row;
      row = end;
    }
  }
  return pieces;
}

std::vector<absl::Span<const Piece>> JoinPieces(
    absl::Span<const Piece> pieces) {
  std::vector<absl::Span<const Piece>> joined;
  size_t begin = 0;
  int64_t elements = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    elements += (pieces[i].last - pieces[i].first) * pieces[i].cols;
    if (elements < kLeast && i + 1 < pieces.size()) continue;
    joined.push_back(pieces.subspan(begin, i + 1 - begin));
    begin = i + 1;
    elements = 0;
  }
  return joined;
}

}  // namespace quantd::cpu
