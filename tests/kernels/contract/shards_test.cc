// Parts of a tensor that are cut between blocks and quantized with the amax of
// the whole and their position are slices of the whole, byte for byte. So are
// groups that end between blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/kernels/contract/contract.h"
#include "tests/kernels/contract/copy_codes.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Format;
using oracle::FourOverSix;
using oracle::QuantizeSpec;

constexpr int64_t kRows = 384;
constexpr int64_t kCols = 512;
constexpr uint64_t kSeed = 0x0123456789ABCDEF;

struct Case {
  std::string name;
  std::function<void(QuantizeSpec&)> set;
  int64_t row_cut;  // cuts for the columnwise copy are multiples of this
  int64_t col_cut;  // cuts for the rowwise copy are multiples of this
};

Case Make(
    std::string name, Format f, int64_t block,
    std::function<void(QuantizeSpec&)> also = [](QuantizeSpec&) {}) {
  return {std::move(name),
          [=](QuantizeSpec& s) {
            s.format = f;
            also(s);
          },
          block, block};
}

std::function<void(QuantizeSpec&)> Rotated(int dimension, bool stochastic) {
  return [=](QuantizeSpec& s) {
    s.rotate_rows = s.rotate_columns = true;
    s.dimension = dimension;
    s.mask = oracle::Mask(0x9669A55A3CC3D7E8, 0x0123456789ABCDEF);
    if (dimension < 128) s.mask.words[1] = 0;
    if (dimension < 64) s.mask.words[0] &= (uint64_t{1} << dimension) - 1;
    s.stochastic = stochastic;
  };
}

std::vector<Case> Cases() {
  const auto stochastic = [](QuantizeSpec& s) { s.stochastic = true; };
  const auto four_over_six = [](QuantizeSpec& s) {
    s.four_over_six = FourOverSix::kMse;
    s.scale_256 = true;
  };
  std::vector<Case> cases = {
      Make("nvfp4", Format::kNvfp4, 16),
      Make("nvfp4_swizzled", Format::kNvfp4, 16,
           [](QuantizeSpec& s) { s.swizzled = true; }),
      Make("nvfp4_stochastic", Format::kNvfp4, 16, stochastic),
      Make("nvfp4_4over6", Format::kNvfp4, 16, four_over_six),
      Make("nvfp4_2d", Format::kNvfp4Square, 16),
      Make("nvfp4_2d_compact", Format::kNvfp4Square, 16,
           [](QuantizeSpec& s) { s.compact = true; }),
      Make("nvfp4_2d_stochastic", Format::kNvfp4Square, 16, stochastic),
      Make("nvfp4_2d_4over6", Format::kNvfp4Square, 16, four_over_six),
      Make("fp8_e4m3", Format::kFp8E4M3, 1),
      Make("fp8_e5m2", Format::kFp8E5M2, 1),
      // These formats have no amax.
      Make("mxfp8_e4m3", Format::kMxfp8E4M3, 32),
      Make("mxfp8_e5m2", Format::kMxfp8E5M2, 32),
      Make("mxfp4_stochastic", Format::kMxfp4, 32, stochastic),
      Make("fp8_block_e4m3", Format::kFp8BlockE4M3, 128),
      Make("fp8_block_2d_e5m2", Format::kFp8SquareE5M2, 128),
  };
  for (int dimension : {16, 32, 64, 128}) {
    cases.push_back(Make(fmt::format("nvfp4_rht_{}", dimension), Format::kNvfp4,
                         dimension, Rotated(dimension, false)));
    cases.push_back(Make(fmt::format("nvfp4_rht_{}_stochastic", dimension),
                         Format::kNvfp4, dimension, Rotated(dimension, true)));
  }
  return cases;
}

struct Cut {
  int64_t row;
  int64_t rows;
  int64_t col;
  int64_t cols;
};

class ShardsContract : public ContractTest {
 protected:
  QuantizeSpec Whole(const Case& c) const {
    QuantizeSpec spec;
    spec.element = Element::kBF16;
    spec.rows = kRows;
    spec.cols = kCols;
    spec.rowwise = spec.columnwise = true;
    c.set(spec);
    if (oracle::HasAmax(spec.format)) {
      spec.row_amax = {7.5f};
      spec.column_amax = {7.5f};
    }
    if (spec.stochastic) {
      spec.seed = kSeed;
      spec.seed_offset = 3;
      // The whole is itself a part of a larger tensor.
      spec.row_offset = 1'000'003;
      spec.column_offset = 48;
      spec.total_columns = 1000;
    }
    return spec;
  }
  static oracle::Quantized Quantize(Device& device, const QuantizeSpec& spec,
                                    const Bytes& x) {
    auto q = device.Quantize(spec, x);
    EXPECT_THAT(q, IsOk());
    return q.ok() ? *std::move(q) : oracle::Quantized{};
  }

  // Checks that the part's codes and scales equal the whole's at the cut.
  static void ExpectSlice(const std::string& what, const CopyCodes& whole,
                          const CopyCodes& part, int64_t line, int64_t at) {
    SCOPED_TRACE(what);
    ASSERT_GT(part.codes.size(), 0u);
    for (int64_t l = 0; l < part.lines; ++l) {
      for (int64_t p = 0; p < part.positions; ++p) {
        ASSERT_EQ(part.code(l, p), whole.code(line + l, at + p))
            << "line " << l << " position " << p;
      }
    }
    if (part.blocks == 0) {
      EXPECT_EQ(part.scales, whole.scales);
      return;
    }
    const int64_t first = at / (whole.positions / whole.blocks);
    for (int64_t l = 0; l < part.lines; ++l) {
      for (int64_t b = 0; b < part.blocks; ++b) {
        ASSERT_EQ(part.scale(l, b), whole.scale(line + l, first + b))
            << "line " << l << " block " << b;
      }
    }
  }
};

Bytes Slice(const Bytes& x, const Cut& cut) {
  Bytes out;
  for (int64_t r = 0; r < cut.rows; ++r) {
    const auto from = x.begin() + 2 * ((cut.row + r) * kCols + cut.col);
    out.insert(out.end(), from, from + 2 * cut.cols);
  }
  return out;
}

TEST_F(ShardsContract, PartsAreSlicesOfTheWhole) {
  OnEveryDevice("shards", [&](Device& device, const std::string& where) {
    SCOPED_TRACE(where);
    const Bytes x =
        MakeTensor(Element::kBF16, kRows * kCols, Flavor::kGaussian, 11);
    for (const Case& c : Cases()) {
      const QuantizeSpec spec = Whole(c);
      const oracle::Quantized whole = Quantize(device, spec, x);
      const CopyCodes row = CodesOf(spec, false, whole.rowwise);
      const CopyCodes column = CodesOf(spec, true, whole.columnwise);
      // Shards that are legal for both copies, then those for one copy only.
      const int64_t m = c.row_cut;
      const int64_t k = c.col_cut;
      const bool square = oracle::IsSquare(spec.format);
      std::vector<std::pair<Cut, oracle::QuantizeSpec>> parts;
      const auto add = [&](bool rowwise, bool columnwise, const Cut& cut) {
        QuantizeSpec part = spec;
        part.rowwise = rowwise;
        part.columnwise = columnwise;
        if (!rowwise) part.rotate_rows = false;
        if (!columnwise) part.rotate_columns = false;
        if (!rowwise) part.row_amax.clear();
        if (!columnwise) part.column_amax.clear();
        part.rows = cut.rows;
        part.cols = cut.cols;
        if (spec.stochastic) {
          part.row_offset += cut.row;
          part.column_offset += cut.col;
        }
        parts.push_back({cut, part});
      };
      add(true, true, {0, kRows, 0, k});
      add(true, true, {m, kRows - m, k, kCols - k});
      add(true, true, {m, m, 2 * k, k});
      add(true, true, {2 * m, std::max<int64_t>(m, 16), 0, kCols});
      if (!square) {
        for (int64_t at : {1, 13, 129, 383}) {
          add(true, false, {at, kRows - at, 0, kCols});
          add(true, false, {0, at, k, k});
          add(false, true, {0, kRows, at, kCols - at});
          add(false, true, {m, m, at, 1});
        }
      }
      for (const auto& [cut, part] : parts) {
        const std::string what =
            fmt::format("{}: {} rows from {}, {} columns from {}", c.name,
                        cut.rows, cut.row, cut.cols, cut.col);
        const oracle::Quantized q = Quantize(device, part, Slice(x, cut));
        if (part.rowwise) {
          ExpectSlice(what + ", rowwise", row, CodesOf(part, false, q.rowwise),
                      cut.row, cut.col);
        }
        if (part.columnwise) {
          ExpectSlice(what + ", columnwise", column,
                      CodesOf(part, true, q.columnwise), cut.col, cut.row);
        }
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_F(ShardsContract, AlignedGroupsAreSlicesOfTheWhole) {
  OnEveryDevice("shards", [&](Device& device, const std::string& where) {
    SCOPED_TRACE(where);
    const Bytes x =
        MakeTensor(Element::kBF16, kRows * kCols, Flavor::kOutliers, 12);
    for (const Case& c : Cases()) {
      const QuantizeSpec spec = Whole(c);
      const oracle::Quantized whole = Quantize(device, spec, x);
      QuantizeSpec grouped = spec;
      grouped.splits = {0, 128, 128, 0, 128, 0};
      if (c.row_cut <= 32) grouped.splits = {32, 0, 96, 160, 64, 32, 0};
      ASSERT_EQ(std::accumulate(grouped.splits.begin(), grouped.splits.end(),
                                int64_t{0}),
                kRows);
      if (!spec.row_amax.empty()) {
        grouped.row_amax.assign(grouped.splits.size(), 7.5f);
        grouped.column_amax.assign(grouped.splits.size(), 7.5f);
      }
      const oracle::Quantized q = Quantize(device, grouped, x);
      int64_t row = 0;
      for (size_t g = 0; g < grouped.splits.size(); ++g) {
        if (grouped.splits[g] == 0) continue;
        const std::string what = fmt::format("{}: group {}", c.name, g);
        ExpectSlice(what + ", rowwise", CodesOf(spec, false, whole.rowwise),
                    CodesOf(grouped, false, q.rowwise, g), row, 0);
        ExpectSlice(what + ", columnwise",
                    CodesOf(spec, true, whole.columnwise),
                    CodesOf(grouped, true, q.columnwise, g), 0, row);
        if (HasFatalFailure()) return;
        row += grouped.splits[g];
      }
    }
  });
}

// A random byte belongs to an element, not to a block. So if every block has
// the same scale, a columnwise copy may be cut between any two rows.
TEST_F(ShardsContract, RandomBytesBelongToElements) {
  OnEveryDevice("shards", [&](Device& device, const std::string& where) {
    SCOPED_TRACE(where);
    std::vector<float> values(kRows * kCols);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 4 + static_cast<float>(Mix(i) % 64) / 32;  // 4 .. 6
    }
    const Bytes x = oracle::FromValues(Element::kBF16, values);
    QuantizeSpec spec;
    spec.element = Element::kBF16;
    spec.rows = kRows;
    spec.cols = kCols;
    spec.columnwise = true;
    // With this amax every block whose maximum is from 3 to 9 gets the block
    // scale 2^-9, the smallest one.
    spec.row_amax = {2688.0f * 512.0f};
    spec.stochastic = true;
    spec.seed = kSeed;
    const CopyCodes whole =
        CodesOf(spec, true, Quantize(device, spec, x).columnwise);
    for (int64_t at : {1, 7, 16, 17, 255}) {
      for (int64_t col : {0, 3, 100}) {
        const Cut cut = {at, kRows - at, col, kCols - col};
        QuantizeSpec part = spec;
        part.rowwise = false;
        part.rows = cut.rows;
        part.cols = cut.cols;
        part.row_offset = cut.row;
        part.column_offset = cut.col;
        const CopyCodes codes = CodesOf(
            part, true, Quantize(device, part, Slice(x, cut)).columnwise);
        ASSERT_EQ(codes.lines, cut.cols);
        for (int64_t l = 0; l < codes.lines; ++l) {
          for (int64_t p = 0; p < codes.positions; ++p) {
            ASSERT_EQ(codes.code(l, p), whole.code(col + l, at + p))
                << "from row " << at << ", column " << col;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace quantd
