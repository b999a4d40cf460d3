// The geometry of one copy of an M x K matrix: the offset of every code and
// scale. Plans take the sizes of tensors from it, and devices take addresses.
#ifndef QUANTD_KERNELS_PLAN_GEOMETRY_H_
#define QUANTD_KERNELS_PLAN_GEOMETRY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/arith/copy_address.h"
#include "quantd/format.h"

namespace quantd {

inline constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

struct CopyGeometry : CopyAddress {
  std::vector<int64_t> data_shape;  // in stored elements
  size_t data_bytes = 0;
  std::vector<int64_t> scale_shape;
  size_t scale_bytes = 0;
};

// Makes the geometry of one copy. `rotation` is the dimension of the RHT that
// was applied to the copy, or 0.
CopyGeometry MakeCopyGeometry(const FormatSpec& format, bool columnwise,
                              int64_t rows, int64_t cols, int rotation,
                              Layout scale_layout, bool compact_scales);

// The padding of a scale tensor, as runs to be zeroed. Runs may also cover
// scales, so they must be zeroed before the scales are written.
std::vector<ZeroRun> ScalePadding(const FormatSpec& format,
                                  const CopyGeometry& geometry);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_GEOMETRY_H_
