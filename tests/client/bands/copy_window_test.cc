// Compares strips, which state where a part of a tensor lies in the whole, with
// the address of each code and scale, for all formats and layouts.
#include "client/tensors/copy_window.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/testing/matchers.h"

namespace quantd::client {
namespace {

using Buffer = std::vector<std::byte>;
// Is called for each scale or code of a copy, with its line, its block or
// position, and its offset.
using Visit = std::function<void(int64_t line, int64_t at, size_t offset)>;

std::byte ValueOf(int64_t line, int64_t at, size_t i) {
  return static_cast<std::byte>(1 + (line * 31 + at * 7 + i * 3) % 251);
}

void ForScales(const FormatSpec& format, const CopyGeometry& copy,
               const Visit& visit) {
  for (int64_t l = 0; l < copy.lines; l += copy.scale_lines) {
    for (int64_t b = 0; b < copy.blocks; ++b) {
      visit(l, b, ScaleIndex(copy, l, b) * SizeOf(format.scale));
    }
  }
}

void ForCodes(const FormatSpec& format, const CopyGeometry& copy,
              const Visit& visit) {
  const int64_t packed = format.element == DType::kE2M1x2 ? 2 : 1;
  for (int64_t l = 0; l < copy.lines; ++l) {
    for (int64_t p = 0; p < copy.padded / packed; ++p) {
      visit(l, p, l * copy.data_line + p * copy.data_position);
    }
  }
}

TEST(CopyWindowTest, StripsAreWhereCodesAndScalesAre) {
  constexpr int64_t kRows = 320, kCols = 448;
  int copies = 0;
  for (const FormatSpec& format : kFormats) {
    for (int turn = 0; turn < 8; ++turn) {
      QuantizeOptions o;
      o.format = format.format;
      o.usage = Usage::kBoth;
      const bool columnwise = turn & 1;
      if (turn & 2) o.form.scale_layout = Layout::kSwizzled;
      o.form.compact_scales = turn & 4;
      if (!MakeQuantizePlan({DType::kBF16, {kRows, kCols}}, o).ok()) continue;
      const CopyKind kind = CopyOf(o, DType::kBF16, columnwise);
      ++copies;
      for (const bool codes : {false, true}) {
        const auto fill = [&](const CopyGeometry& copy, int64_t line,
                              int64_t at) {
          const size_t size = codes ? 1 : SizeOf(format.scale);
          Buffer bytes(codes ? copy.data_bytes : copy.scale_bytes);
          (codes ? ForCodes : ForScales)(
              format, copy, [&](int64_t l, int64_t b, size_t offset) {
                for (size_t i = 0; i < size; ++i) {
                  bytes.at(offset + i) = ValueOf(line + l, at + b, i);
                }
              });
          return bytes;
        };
        const Buffer whole = fill(kind.Geometry(kRows, kCols), 0, 0);
        Buffer joined(whole.size());
        for (const int64_t row : {0, 128, 256}) {
          for (const int64_t col : {0, 256}) {
            const Shard part = {row,
                                col,
                                std::min<int64_t>(128, kRows - row),
                                std::min<int64_t>(256, kCols - col),
                                {}};
            const CopyWindow window(kind, kRows, kCols, part);
            const int64_t packed = format.element == DType::kE2M1x2 ? 2 : 1;
            const int64_t step = codes               ? packed
                                 : format.block == 0 ? kRows * kCols
                                                     : format.block;
            const Buffer own = fill(window.part(), columnwise ? col : row,
                                    (columnwise ? row : col) / step);
            // A single scale of the tensor has no strip.
            if (!codes && format.scaling == Scaling::kTensor) continue;
            const Strip strip = codes ? window.Codes() : window.Scales();
            Buffer gathered(own.size());
            Gather(strip, whole, absl::MakeSpan(gathered));
            EXPECT_EQ(gathered, own) << format.name << " " << turn << " " << row
                                     << " " << col << " " << codes;
            Scatter(strip, own, absl::MakeSpan(joined));
          }
        }
        if (codes || format.scaling != Scaling::kTensor) {
          EXPECT_EQ(joined, whole) << format.name << " " << turn;
        }
      }
    }
  }
  EXPECT_GT(copies, 20);
}

}  // namespace
}  // namespace quantd::client
