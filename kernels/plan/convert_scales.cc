#include "kernels/plan/convert_scales.h"

#include <algorithm>
#include <cstring>

namespace quantd {

void ConvertScales(const FormatSpec& format, const CopyGeometry& from,
                   absl::Span<const std::byte> scales, const CopyGeometry& to,
                   absl::Span<std::byte> converted, int64_t line,
                   int64_t block) {
  std::fill(converted.begin(), converted.end(), std::byte{0});
  const size_t size = SizeOf(format.scale);
  for (int64_t l = 0; l < to.lines; ++l) {
    for (int64_t b = 0; b < to.blocks; ++b) {
      const int64_t source = ScaleIndex(from, line + l, block + b);
      std::memcpy(
          converted.data() + static_cast<size_t>(ScaleIndex(to, l, b)) * size,
          scales.data() + static_cast<size_t>(source) * size, size);
    }
  }
}

}  // namespace quantd
