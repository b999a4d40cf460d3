// Cuts a job's rows into pieces. Each thread takes one piece at a time.
#ifndef QUANTD_KERNELS_CPU_PIECES_H_
#define QUANTD_KERNELS_CPU_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "quantd/plan.h"

namespace quantd::cpu {

// Rows [first, last) of a group; `first` is a multiple of kTileRows. For a
// group of one row a piece may be some of its columns.
struct Piece {
  size_t group;
  int64_t first;
  int64_t last;
  int64_t col;
  int64_t cols;
};

enum Cut { kWholeRows, kCutRows };

// Cuts all rows of all groups for `threads` threads, in the order in which
// threads take them: large pieces first, so that all threads end at about the
// same time. With kCutRows a group of one row is cut by columns, for
// kernels/cpu/slice.h.
std::vector<Piece> CutPieces(const Plan& plan, int threads, Cut cut);

// Joins consecutive pieces of small groups, which alone are not worth waking a
// thread.
std::vector<absl::Span<const Piece>> JoinPieces(absl::Span<const Piece> pieces);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_PIECES_H_
