// Makes a separate task of some columns of a single row, so that threads can
// share a tensor of one row.
#ifndef QUANTD_KERNELS_CPU_SLICE_H_
#define QUANTD_KERNELS_CPU_SLICE_H_

#include <cstdint>

#include "kernels/arith/encode.h"
#include "kernels/device/group_task.h"

namespace quantd::cpu {

// Slices start at multiples of this number of columns, which is a multiple of
// every block, rotation and swizzled tile.
inline constexpr int64_t kSliceUnit = 512;

struct Slice {
  EncodeParams params;
  GroupTask group;
};

// Columns [col, col + cols) of a group of one row as a task. Both are multiples
// of kSliceUnit, except for `cols` of the last slice. The slice writes its part
// of the bytes of the whole row. Its `partial` and `dbias` stay those of the
// whole row.
Slice SliceOf(const EncodeParams& params, const GroupTask& group, int64_t col,
              int64_t cols);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_SLICE_H_
