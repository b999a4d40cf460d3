// Decoding of arbitrary codes and scales that no encoder wrote, and of ordinary
// ones, for which kernels have a fast path.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "fmt/format.h"
#include "kernels/plan/support.h"
#include "tests/kernels/contract/contract.h"

namespace quantd {
namespace {

using oracle::DequantizeSpec;

enum class Content {
  kAny,
  kPlain,    // no NaN and no Inf, scales far from the ends of their range
  kZeros,    // as kPlain, with blocks of zeros, whose scale of a byte is 0
  kSpecial,  // as kPlain, with a NaN in one code
};

uint8_t PlainCode(DType element, uint8_t code) {
  if (element == DType::kE4M3 && (code & 0x7F) == 0x7F) return code ^ 1;
  if (element == DType::kE5M2 && (code & 0x7C) == 0x7C) return code ^ 0x40;
  return code;
}

uint32_t PlainScale(const FormatSpec& f, uint32_t random) {
  if (f.scale == DType::kE8M0) return 100 + random % 30;
  if (f.scale == DType::kE4M3) return 0x20 + random % 0x40;
  return 0x3A000000u + random % 0x04000000u;
}

// Amaxes near every branch, also ones that no encoder gives.
constexpr float kAmaxes[] = {3.3f,
                             0.0f,
                             1e-45f,
                             1e-37f,
                             7.8e-36f,
                             7.9e-36f,
                             7.5e35f,
                             7.7e35f,
                             1e36f,
                             3e38f,
                             2688.0f,
                             std::numeric_limits<float>::max(),
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

oracle::Copy CopyOf(const FormatSpec& f, const oracle::Layout& layout,
                    Content content, uint64_t seed) {
  oracle::Copy copy;
  copy.data = RandomBytes(static_cast<int64_t>(layout.DataBytes()), seed);
  copy.scale = RandomBytes(static_cast<int64_t>(layout.ScaleBytes()), seed + 1);
  copy.amax = {content == Content::kAny
                   ? kAmaxes[Draw(seed, 1, std::size(kAmaxes))]
                   : 3.3f};
  if (content == Content::kAny || layout.empty()) return copy;
  for (int64_t line = 0; line < layout.lines; ++line) {
    for (int64_t b = 0; b < layout.blocks; ++b) {
      const uint64_t random = Mix(seed + line * 131 + b);
      const bool zeros = content == Content::kZeros && random % 3 == 0;
      layout.PutScale(copy.scale, line, b,
                      zeros && f.scale != DType::kF32
                          ? 0
                          : PlainScale(f, static_cast<uint32_t>(random >> 8)));
      if (!zeros) continue;
      const int64_t end = std::min(layout.kept, (b + 1) * layout.block);
      for (int64_t at = b * layout.block; at < end; ++at) {
        layout.PutCode(copy.data, line, at, 0);
      }
    }
  }
  if (f.element == DType::kE2M1x2) return copy;
  for (uint8_t& code : copy.data) code = PlainCode(f.element, code);
  if (content == Content::kSpecial) copy.data[copy.data.size() / 2] = 0x7F;
  return copy;
}

class DecodingContract : public ContractTest {
 protected:
  void Run(const FormatSpec& f, bool columnwise, int rotation, bool swizzled,
           size_t turn) {
    static constexpr Size kShapes[] = {
        {1, 16}, {33, 36}, {130, 260}, {70, 35}, {257, 1040}};
    const int64_t step = !columnwise && (f.scaling == Scaling::kNvfp4 ||
                                         f.scaling == Scaling::kMx)
                             ? std::max(f.block, rotation)
                             : 1;
    for (const Size& shape : kShapes) {
      for (const Content content : {Content::kAny, Content::kPlain,
                                    Content::kZeros, Content::kSpecial}) {
        for (const oracle::Element output : kElements) {
          if (TooMany()) return;
          ++turn;
          if (!Chosen()) continue;
          DequantizeSpec spec;
          spec.format = static_cast<oracle::Format>(f.format);
          spec.rows = shape.rows;
          spec.cols = (shape.cols + step - 1) / step * step;
          spec.columnwise = columnwise;
          spec.output = output;
          spec.swizzled = swizzled;
          spec.inverse = rotation > 0;
          if (spec.inverse) {
            spec.dimension = rotation;
            // Keeps only the bits of that dimension.
            spec.mask.words[0] = oracle::Repeat(SuiteMask(turn)).words[0] &
                                 ((uint64_t{1} << rotation) - 1);
          }
          const oracle::Layout layout =
              oracle::MakeLayout({.format = spec.format,
                                  .rows = spec.rows,
                                  .cols = spec.cols,
                                  .columnwise = columnwise,
                                  .rotated = rotation,
                                  .swizzled = swizzled});
          Dequantize(fmt::format("{} {}{} {}x{} rotation {} content {} to {}",
                                 f.name, columnwise ? "columnwise" : "rowwise",
                                 swizzled ? " swizzled" : "", spec.rows,
                                 spec.cols, rotation, static_cast<int>(content),
                                 Name(DTypeOf(output))),
                     spec, CopyOf(f, layout, content, turn * 7919));
        }
      }
    }
    Combination();
  }
};

TEST_F(DecodingContract, AnyCodes) {
  size_t turn = 0;
  for (const FormatSpec& f : kFormats) {
    for (const bool columnwise : {false, true}) {
      for (const int rotation : {0, 16, 32}) {
        if (rotation > 0 && (f.options & kOptRht) == 0) continue;
        for (const bool swizzled : {false, true}) {
          if (swizzled && (f.options & kOptSwizzled) == 0) continue;
          Run(f, columnwise, rotation, swizzled, turn += 1000);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quantd
