// The scales of one copy from one layout to the other.
#ifndef QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_
#define QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/geometry.h"
#include "quantd/format.h"

namespace quantd {

// Writes scales that `from` lays out as `to` lays them out, padding zero: all
// that `to` has, from line `line` and block `block` of `from` on. The
// geometries are those of copies of one format and direction. Sizes:
// from.scale_bytes and to.scale_bytes; no overlap.
void ConvertScales(const FormatSpec& format, const CopyGeometry& from,
                   absl::Span<const std::byte> scales, const CopyGeometry& to,
                   absl::Span<std::byte> converted, int64_t line = 0,
                   int64_t block = 0);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_
