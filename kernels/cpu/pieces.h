// Cuts a job's rows into pieces, which a thread takes one at a time.
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

// Cuts all rows of all groups for `threads` threads, in the order in which they
// are to be taken: large pieces first, so that all threads end together.
// kCutRows cuts a group of one row by columns, as kernels/cpu/slice.h can
// compute them.
std::vector<Piece> CutPieces(const Plan& plan, int threads, Cut cut);

// Joins pieces of small groups that are too short to wake a thread for.
std::vector<absl::Span<const Piece>> JoinPieces(absl::Span<const Piece> pieces);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_PIECES_H_
