// Linear and swizzled scales, compared with an independent formula.
#include "kernels/plan/convert_scales.h"

#include <gtest/gtest.h>

#include <vector>

#include "quantd/plan.h"

namespace quantd {
namespace {

// The index of a scale in the layout of the hardware's documentation: tiles of
// 128 lines and 4 blocks, ordered along the blocks. A tile has 32 rows of 16
// bytes. Line l of a tile has the bytes from 4 * (l / 32) to 4 * (l / 32) + 3
// of row l % 32.
size_t Tiled(int64_t line, int64_t block, int64_t blocks) {
  const int64_t tiles_across = (blocks + 3) / 4;
  const int64_t tile = (line / 128) * tiles_across + block / 4;
  const int64_t inside = line % 128;
  return static_cast<size_t>(tile * 512 + (inside % 32) * 16 +
                             (inside / 32) * 4 + block % 4);
}

struct Case {
  Format format;
  bool columnwise;
  int64_t rows;
  int64_t cols;
  int rotation;
};

CopyGeometry Of(const Case& c, Layout layout) {
  return MakeCopyGeometry(*FindFormat(c.format), c.columnwise, c.rows, c.cols,
                          c.rotation, layout, /*compact_scales=*/false);
}

TEST(ScaleLayout, RoundTrips) {
  for (const Case& c : std::vector<Case>{
           {Format::kNvfp4, false, 1, 16, 0},
           {Format::kNvfp4, false, 128, 64, 0},
           {Format::kNvfp4, false, 300, 208, 16},
           {Format::kNvfp4, true, 33, 130, 0},
           {Format::kNvfp4, true, 33, 130, 128},
           {Format::kNvfp4Square, false, 40, 48, 0},
           {Format::kMxfp8E4M3, false, 129, 160, 0},
           {Format::kMxfp8E4M3, true, 161, 130, 0},
           {Format::kMxfp8E5M2, true, 31, 5, 64},
           {Format::kMxfp4, true, 1, 1, 0},
           {Format::kMxfp4, false, 0, 32, 0},
           {Format::kMxfp8E4M3, true, 0, 7, 0},
       }) {
    const FormatSpec& format = *FindFormat(c.format);
    const CopyGeometry linear = Of(c, Layout::kLinear);
    const CopyGeometry tiles = Of(c, Layout::kSwizzled);
    ASSERT_EQ(linear.blocks, tiles.blocks);
    // Every scale is a different byte, and none is zero.
    std::vector<std::byte> before(linear.scale_bytes, std::byte{0});
    uint64_t state = 1;
    for (int64_t l = 0; l < linear.lines; ++l) {
      for (int64_t b = 0; b < linear.blocks; ++b) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const auto index = static_cast<size_t>(ScaleIndex(linear, l, b));
        ASSERT_EQ(before[index], std::byte{0})
            << "two scales have the same index";
        before[index] = static_cast<std::byte>(1 + (state >> 33) % 255);
      }
    }
    // The memory's old content must be overwritten.
    std::vector<std::byte> there(tiles.scale_bytes, std::byte{0xEE});
    ConvertScales(format, linear, before, tiles, absl::MakeSpan(there));
    std::vector<std::byte> expected(tiles.scale_bytes, std::byte{0});
    for (int64_t l = 0; l < linear.lines; ++l) {
      for (int64_t b = 0; b < linear.blocks; ++b) {
        expected[Tiled(l, b, linear.blocks)] =
            before[static_cast<size_t>(ScaleIndex(linear, l, b))];
      }
    }
    const std::string name(format.name);
    EXPECT_EQ(there, expected) << name << " " << c.rows << "x" << c.cols;
    std::vector<std::byte> back(linear.scale_bytes, std::byte{0xEE});
    ConvertScales(format, tiles, there, linear, absl::MakeSpan(back));
    EXPECT_EQ(back, before) << name << " " << c.rows << "x" << c.cols;
  }
}

}  // namespace
}  // namespace quantd
