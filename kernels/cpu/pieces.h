// How a job's rows are cut into what one thread takes at a time.
#ifndef QUANTD_KERNELS_CPU_PIECES_H_
#define QUANTD_KERNELS_CPU_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "quantd/plan.h"

namespace quantd::cpu {

// Rows [first, last) of a group; `first` is a multiple of kTileRows. The piece
// of a group of one row may be only some of the columns.
struct Piece {
  size_t group;
  int64_t first;
  int64_t last;
  int64_t col;
  int64_t cols;
};

enum Cut { kWholeRows, kCutRows };

// Cuts all rows of all groups for so many threads, in the order in which they
// are to be taken: large pieces first, so that all threads end together.
// kCutRows cuts a group of one row by columns, as kernels/cpu/slice.h can
// compute them.
std::vector<Piece> CutPieces(const Plan& plan, int threads, Cut cut);

// Puts pieces together that are not worth a wake-up each: those of small
// groups.
std::vector<absl::Span<const Piece>> JoinPieces(absl::Span<const Piece> pieces);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_PIECES_H_
