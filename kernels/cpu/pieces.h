// How a job's rows are cut into what one thread takes at a time.
#ifndef QUANTD_KERNELS_CPU_PIECES_H_
#define QUANTD_KERNELS_CPU_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/plan/plan.h"

namespace quantd::cpu {

// Rows [first, last) of a group, `first` a multiple of kTileRows; of a single
// row perhaps only some columns.
struct Piece {
  size_t group;
  int64_t first;
  int64_t last;
  int64_t col;
  int64_t cols;
};

enum Cut { kWholeRows, kCutRows };

// All rows of all groups for so many threads, in the order in which they are to
// be taken: large pieces first, so that all threads end together. kCutRows: a
// group of a single row is cut into columns, see kernels/cpu/slice.h.
std::vector<Piece> CutPieces(const Plan& plan, int threads, Cut cut);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_PIECES_H_
