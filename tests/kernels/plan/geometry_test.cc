// The offsets of codes and scales, and the bytes of padding.
#include "kernels/plan/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fmt/format.h"

namespace quantd {
namespace {

TEST(GeometryTest, SwizzledIndexOfTheGoldenVectors) {
  EXPECT_EQ(SwizzledIndex(0, 0, 8), 0);
  EXPECT_EQ(SwizzledIndex(1, 0, 8), 16);
  EXPECT_EQ(SwizzledIndex(32, 0, 8), 4);
  EXPECT_EQ(SwizzledIndex(127, 3, 8), 511);
  EXPECT_EQ(SwizzledIndex(0, 4, 8), 512);
  EXPECT_EQ(SwizzledIndex(128, 0, 8), 1024);
  EXPECT_EQ(SwizzledIndex(200, 6, 8), 1674);
  EXPECT_EQ(SwizzledIndex(33, 5, 12), 533);
}

// Tuned kernels compute the index from these parts, in 32 bits.
TEST(GeometryTest, SwizzledIndexIsTheSumOfItsParts) {
  for (uint32_t blocks : {1u, 4u, 7u, 12u}) {
    for (uint32_t line = 0; line < 400; ++line) {
      for (uint32_t b = 0; b < blocks; ++b) {
        const uint32_t tile = SwizzledTile(line, b, (blocks + 3) / 4);
        const uint32_t place = line % 32 * kSwizzledLine +
                               line / 32 % 4 * kSwizzledQuarter + b % 4;
        ASSERT_EQ(SwizzledIndex(line, b, blocks),
                  int64_t{tile} * kSwizzledTile + place);
      }
    }
  }
}

// The index of the scale of block b of line l, for 200 x 320 without a
// rotation.
int64_t ScaleIndex(Format format, bool columnwise, Layout layout, bool compact,
                   int64_t l, int64_t b) {
  const CopyGeometry g = MakeCopyGeometry(*FindFormat(format), columnwise, 200,
                                          320, 0, layout, compact);
  if (g.swizzled) return SwizzledIndex(l, b, g.blocks);
  return l / g.scale_lines * g.scale_line + b * g.scale_block;
}

TEST(GeometryTest, IndicesOfScales) {
  const struct {
    Format format;
    bool columnwise;
    Layout layout;
    bool compact;
    int64_t line, block, expected;
  } kCases[] = {
      // A row has 20 blocks; a column has 13, padded to 16.
      {Format::kNvfp4, false, Layout::kLinear, false, 7, 19, 7 * 20 + 19},
      {Format::kNvfp4, true, Layout::kLinear, false, 319, 12, 319 * 16 + 12},
      // 199 = 128 + 2 * 32 + 7, 6 = 4 + 2.
      {Format::kNvfp4, false, Layout::kSwizzled, false, 199, 6,
       (1 * 5 + 1) * 512 + 7 * 16 + 2 * 4 + 2},
      {Format::kNvfp4Square, false, Layout::kLinear, false, 37, 3, 37 * 20 + 3},
      {Format::kNvfp4Square, false, Layout::kLinear, true, 37, 3, 2 * 20 + 3},
      {Format::kNvfp4Square, true, Layout::kLinear, true, 319, 12,
       19 * 13 + 12},
      {Format::kMxfp8E4M3, false, Layout::kLinear, false, 7, 9, 7 * 12 + 9},
      // Columns of MXFP8: block after block, 320 padded to 384.
      {Format::kMxfp8E4M3, true, Layout::kLinear, false, 7, 6, 6 * 384 + 7},
      {Format::kMxfp8E4M3, true, Layout::kSwizzled, false, 300, 5,
       (2 * 2 + 1) * 512 + 12 * 16 + 1 * 4 + 1},
      {Format::kMxfp4, true, Layout::kLinear, false, 300, 5, 300 * 8 + 5},
      {Format::kFp8BlockE4M3, false, Layout::kLinear, false, 199, 2,
       2 * 200 + 199},
      {Format::kFp8BlockE4M3, true, Layout::kLinear, false, 319, 1, 320 + 319},
      {Format::kFp8SquareE4M3, false, Layout::kLinear, false, 199, 2, 4 + 2},
      {Format::kFp8SquareE4M3, true, Layout::kLinear, false, 319, 1, 2 * 4 + 1},
      {Format::kFp8E5M2, false, Layout::kLinear, false, 199, 0, 0},
      {Format::kFp8E5M2, true, Layout::kLinear, false, 319, 0, 0},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(ScaleIndex(c.format, c.columnwise, c.layout, c.compact, c.line,
                         c.block),
              c.expected)
        << Name(c.format) << (c.columnwise ? " columnwise" : "");
  }
}

TEST(GeometryTest, OffsetsOfCodes) {
  const auto of = [](Format format, bool columnwise, int rotation) {
    return MakeCopyGeometry(*FindFormat(format), columnwise, 200, 320, rotation,
                            Layout::kLinear, false);
  };
  CopyGeometry g = of(Format::kNvfp4, true, 0);
  EXPECT_EQ(g.padded, 208);
  EXPECT_EQ(g.data_line, 104);
  EXPECT_EQ(g.data_position, 1);
  g = of(Format::kMxfp8E5M2, true, 0);  // not transposed
  EXPECT_EQ(g.padded, 200);
  EXPECT_EQ(g.data_line, 1);
  EXPECT_EQ(g.data_position, 320);
  g = of(Format::kMxfp8E5M2, true, 128);
  EXPECT_EQ(g.padded, 256);
  EXPECT_EQ(g.blocks, 8);
  g = of(Format::kFp8BlockE4M3, true, 0);
  EXPECT_EQ(g.data_line, 200);
  EXPECT_EQ(g.blocks, 2);
}

// Zero runs and scales together cover every byte and nothing outside. No two
// blocks share a scale unless they are in the same square.
TEST(GeometryTest, PaddingAndScalesCoverEveryByte) {
  for (const FormatSpec& f : kFormats) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 128},
                                     {128, 128},
                                     {130, 96},
                                     {256, 512},
                                     {300, 288},
                                     {17, 1},
                                     {0, 64}}) {
      for (const bool columnwise : {false, true}) {
        for (const int form : {0, 1, 2}) {  // linear, swizzled, compact
          const Option wanted = form == 1 ? kOptSwizzled : kOptCompact;
          if (form != 0 && !(f.options & wanted)) continue;
          const CopyGeometry g = MakeCopyGeometry(
              f, columnwise, rows, cols, 0,
              form == 1 ? Layout::kSwizzled : Layout::kLinear, form == 2);
          SCOPED_TRACE(fmt::format("{} {}x{} {} {}", f.name, rows, cols,
                                   columnwise, form));
          std::vector<int> written(g.scale_bytes, 0);
          for (const ZeroRun& run : ScalePadding(f, g)) {
            for (size_t i = 0; i < run.count; ++i) {
              const size_t at = run.offset + i * run.pitch;
              ASSERT_LE(at + run.width, g.scale_bytes);
              std::fill_n(written.begin() + at, run.width, 1);
            }
          }
          const size_t size = SizeOf(f.scale);
          int64_t places = 0;
          for (int64_t l = 0; l < g.lines; ++l) {
            for (int64_t b = 0; b < g.blocks; ++b) {
              const int64_t at = g.swizzled ? SwizzledIndex(l, b, g.blocks)
                                            : l / g.scale_lines * g.scale_line +
                                                  b * g.scale_block;
              ASSERT_LE((at + 1) * size, g.scale_bytes);
              if (written[at * size] != 2) ++places;
              std::fill_n(written.begin() + at * size, size, 2);
            }
          }
          EXPECT_EQ(std::count(written.begin(), written.end(), 0),
                    g.lines == 0 ? g.scale_bytes : 0);
          EXPECT_EQ(places, CeilDiv(g.lines, g.scale_lines) * g.blocks);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quantd
