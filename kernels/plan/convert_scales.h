// Converts the scales of one copy from one layout to another.
#ifndef QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_
#define QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/geometry.h"
#include "quantd/format.h"

namespace quantd {

// Copies scales from the layout of `from` to the layout of `to`, and pads with
// zeros. Copies all scales that `to` has, starting at line `line` and block
// `block` of `from`. Both geometries have the same format and direction. The
// spans have from.scale_bytes and to.scale_bytes and must not overlap.
void ConvertScales(const FormatSpec& format, const CopyGeometry& from,
                   absl::Span<const std::byte> scales, const CopyGeometry& to,
                   absl::Span<std::byte> converted, int64_t line = 0,
                   int64_t block = 0);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_CONVERT_SCALES_H_
