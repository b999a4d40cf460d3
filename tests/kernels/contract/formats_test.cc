// Every format with every option gives the oracle's bytes on every device of
// the machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "fmt/format.h"
#include "kernels/plan/support.h"
#include "tests/kernels/contract/contract.h"
#include "tests/kernels/contract/formats_variants.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::QuantizeSpec;

constexpr uint16_t kMasks[] = {0xD7E8, 0x0000, 0xFFFF, 0x5A3C, 0x8001};

class FormatsContract : public ContractTest,
                        public testing::WithParamInterface<FormatSpec> {
 protected:
  // Compares quantization; with dbias also compares decoding of the copies.
  void Quantize(const std::string& what, const QuantizeSpec& spec,
                const Bytes& x) {
    const oracle::Quantized made = ContractTest::Quantize(what, spec, x);
    if (made.rejected || !spec.dbias) return;
    if (spec.rowwise) Decode(what, spec, false, made.rowwise);
    if (spec.columnwise) Decode(what, spec, true, made.columnwise);
  }

  // Compares all sizes of one combination.
  void Run(QuantizeSpec spec, const Variant& variant, bool grouped, bool dbias,
           std::span<const Size> sizes = kSizes) {
    const FormatSpec& f = GetParam();
    if (!Chosen()) {
      turn_ += sizes.size();
      return;
    }
    for (const Size& size : sizes) {
      if (TooMany()) return;
      const size_t turn = ++turn_;
      spec.rows = size.rows;
      spec.mask = oracle::Repeat(kMasks[turn % std::size(kMasks)]);
      spec.policy = kPolicies[Draw(turn, 1, 3)];
      variant.set(spec, turn);
      if (spec.dimension < 128) {
        // Keeps only the bits of the dimension.
        spec.mask.words[1] = 0;
        if (spec.dimension < 64) {
          spec.mask.words[0] &= (uint64_t{1} << spec.dimension) - 1;
        }
      }
      const bool packed = spec.rowwise && (f.scaling == Scaling::kNvfp4 ||
                                           f.scaling == Scaling::kMx);
      const int64_t block = packed ? f.block : 1;
      const int64_t rotation =
          spec.rowwise && spec.rotate_rows ? spec.dimension : 1;
      const int64_t multiple = std::max(block, rotation);
      spec.cols = (size.cols + multiple - 1) / multiple * multiple;
      spec.splits.clear();
      if (grouped) {
        spec.splits = SplitsFor(spec.rows, turn);
        // Sometimes leaves rows after the last group.
        if (turn % 4 == 3 && spec.splits.size() > 1) spec.splits.pop_back();
      }
      spec.dbias.reset();
      if (dbias) spec.dbias = kElements[turn / 3 % 3];
      spec.want_amax = turn % 4 == 0;
      for (std::vector<float>* given : {&spec.row_amax, &spec.column_amax}) {
        if (grouped && !given->empty()) {
          given->resize(spec.splits.size(), given->front());
        }
      }
      spec.statistics = Draw(turn, 2, 5) == 0;
      const Flavor flavor = kFlavors[Draw(turn, 3, std::size(kFlavors))];
      const Bytes& x = SuiteTensor(spec.element, spec.rows * spec.cols, flavor);
      Quantize(fmt::format("{} {} {}x{}{}{} {} {} turn {}", f.name,
                           variant.name, spec.rows, spec.cols,
                           grouped ? " grouped" : "", dbias ? " dbias" : "",
                           Name(DTypeOf(spec.element)), Name(flavor), turn),
               spec, x);
    }
    Combination();
  }

  void RunAll(const std::vector<Variant>& variants) {
    const FormatSpec& f = GetParam();
    for (const Variant& variant : variants) {
      for (Element e : kElements) {
        for (int usage = 1; usage <= 3; ++usage) {
          for (int layout = 0; layout < 3; ++layout) {
            if (layout == 1 && !(f.options & kOptSwizzled)) continue;
            if (layout == 2 && !(f.options & kOptCompact)) continue;
            for (bool grouped : {false, true}) {
              for (bool dbias : {false, true}) {
                QuantizeSpec spec;
                spec.format = static_cast<oracle::Format>(f.format);
                spec.element = e;
                spec.rowwise = (usage & 1) != 0;
                spec.columnwise = (usage & 2) != 0;
                spec.swizzled = layout == 1;
                spec.compact = layout == 2;
                Run(spec, variant, grouped, dbias);
                if (TooMany()) return;
              }
            }
          }
        }
      }
    }
  }

  void Decode(const std::string& what, const QuantizeSpec& made,
              bool columnwise, const oracle::Copy& copy) {
    oracle::DequantizeSpec spec;
    spec.rows = made.rows;
    spec.cols = made.cols;
    spec.columnwise = columnwise;
    const bool rotated = columnwise ? made.rotate_columns : made.rotate_rows;
    // Usually undoes the rotation, and sometimes keeps it.
    spec.rotated = rotated && turn_ / 3 % 3 == 0;
    spec.inverse = rotated && !spec.rotated;
    spec.mask = made.mask;
    spec.output = kElements[turn_ % 3];
    spec.format = made.format;
    spec.dimension = made.dimension;
    spec.splits = made.splits;
    spec.swizzled = made.swizzled;
    spec.compact = made.compact;
    spec.row_scaled = made.row_scaled;
    spec.scale_256 = made.scale_256;
    Dequantize(fmt::format("{} {} decoded", what,
                           columnwise ? "columnwise" : "rowwise"),
               spec, copy);
  }

  size_t turn_ = 0;  // selects tensors and the type of decoded values
};

TEST_P(FormatsContract, EveryCombination) { RunAll(VariantsFor(GetParam())); }

// A single row, which threads share by columns.
TEST_P(FormatsContract, LongRow) {
  const FormatSpec& f = GetParam();
  constexpr Size kLong[] = {{1, 300160}};
  std::vector<Variant> variants = {{"nearest", Nearest}};
  if (f.options & kOptStochastic) {
    variants.push_back({"stochastic", [](QuantizeSpec& s, size_t turn) {
                          s.stochastic = true;
                          s.seed = Mix(turn);
                          s.row_offset = static_cast<int64_t>(turn);
                          s.column_offset = static_cast<int64_t>(turn * 7);
                        }});
  }
  if (f.options & kOptRht) {
    variants.push_back({"rht", [](QuantizeSpec& s, size_t turn) {
                          s.rotate_rows = true;
                          s.dimension = turn % 2 ? 16 : 128;
                        }});
  }
  for (const Variant& variant : variants) {
    for (int layout = 0; layout < 3; ++layout) {
      if (layout == 1 && !(f.options & kOptSwizzled)) continue;
      if (layout == 2 && !(f.options & kOptCompact)) continue;
      QuantizeSpec spec;
      spec.format = static_cast<oracle::Format>(f.format);
      spec.element = Element::kBF16;
      spec.columnwise = true;
      spec.swizzled = layout == 1;
      spec.compact = layout == 2;
      spec.row_scaled = layout == 0 && variant.name == "nearest" &&
                        (f.options & kOptRowScaled) != 0;
      Run(spec, variant, false, false, kLong);
      if (TooMany()) return;
    }
  }
}

// Rows so short that several of them are computed at once.
TEST_P(FormatsContract, NarrowMatrices) {
  constexpr Size kNarrow[] = {{300, 1},  {131, 2},  {257, 3},  {300, 4},
                              {149, 7},  {200, 16}, {140, 31}, {150, 32},
                              {150, 40}, {67, 131}};
  for (Element e : kElements) {
    for (int usage = 1; usage <= 3; ++usage) {
      for (bool grouped : {false, true}) {
        QuantizeSpec spec;
        spec.format = static_cast<oracle::Format>(GetParam().format);
        spec.element = e;
        spec.rowwise = (usage & 1) != 0;
        spec.columnwise = (usage & 2) != 0;
        Run(spec, {"nearest", Nearest}, grouped, !grouped, kNarrow);
        if (TooMany()) return;
      }
    }
  }
}

TEST_P(FormatsContract, FourOverSixAndScaleSearch) {
  if (!(GetParam().options & kOptFourOverSix)) return;
  for (int i = 0; i <= 8; ++i) {
    const Variant variant = {
        i == 8 ? "scale search" : fmt::format("4over6 {}", i),
        [=](QuantizeSpec& s, size_t) {
          s.scale_search = i == 8;
          if (s.scale_search) return;
          s.four_over_six =
              i & 1 ? oracle::FourOverSix::kMse : oracle::FourOverSix::kMae;
          s.scale_256 = (i & 2) != 0;
          s.fast_error = (i & 4) != 0;
        }};
    for (Element e : kElements) {
      for (int usage = 1; usage <= 3; ++usage) {
        QuantizeSpec spec;
        spec.format = static_cast<oracle::Format>(GetParam().format);
        spec.element = e;
        spec.rowwise = (usage & 1) != 0;
        spec.columnwise = (usage & 2) != 0;
        Run(spec, variant, i % 3 == 0, usage == 2);
        if (usage == 1 && GetParam().options & kOptRowScaled) {
          spec.row_scaled = true;
          Run(spec, variant, i % 2 == 0, true);
        }
      }
    }
  }
}

TEST_P(FormatsContract, RowScaled) {
  if (!(GetParam().options & kOptRowScaled)) return;
  for (Element e : kElements) {
    for (int usage = 1; usage <= 3; ++usage) {
      for (bool grouped : {false, true}) {
        for (bool swizzled : {false, true}) {
          QuantizeSpec spec;
          spec.format = static_cast<oracle::Format>(GetParam().format);
          spec.element = e;
          spec.rowwise = (usage & 1) != 0;
          spec.columnwise = (usage & 2) != 0;
          spec.row_scaled = true;
          spec.swizzled = swizzled;
          Run(spec, {"row scaled", Nearest}, grouped, swizzled);
        }
      }
    }
  }
}

TEST_P(FormatsContract, GivenAmaxesScalesAndHistories) {
  const FormatSpec& f = GetParam();
  if (!HasAmax(f)) return;
  for (Element e : kElements) {
    for (bool grouped : {false, true}) {
      for (int what = 0; what < 4; ++what) {
        for (const Size& size : kSizes) {
          if (TooMany()) return;
          const size_t turn = ++turn_;
          QuantizeSpec spec;
          spec.format = static_cast<oracle::Format>(f.format);
          spec.element = e;
          spec.rows = size.rows;
          spec.cols = (size.cols + 15) / 16 * 16;
          spec.columnwise = true;
          spec.policy = kPolicies[Draw(turn, 1, 3)];
          spec.statistics = Draw(turn, 2, 4) == 0;
          if (grouped) spec.splits = SplitsFor(spec.rows, turn);
          spec.row_scaled = what == 2 && (f.options & kOptRowScaled) != 0;
          const size_t groups = std::max<size_t>(1, spec.splits.size());
          const auto fill = [&](size_t n, float least) {
            std::vector<float> v(n);
            for (size_t i = 0; i < n; ++i) {
              v[i] = std::max(
                  least, kGivenAmaxes[(turn + i) % std::size(kGivenAmaxes)]);
            }
            return v;
          };
          const bool lines = spec.row_scaled || oracle::IsChannel(spec.format);
          const size_t rows = lines ? spec.rows : groups;
          const size_t cols = lines ? groups * spec.cols : groups;
          // An empty list would mean that no amax is given.
          if (what != 1 && rows > 0) spec.row_amax = fill(rows, 0);
          if (what >= 1 && cols > 0) spec.column_amax = fill(cols, 0);
          if (f.scaling == Scaling::kTensor && what == 3) {
            spec.row_amax.clear();
            spec.column_amax.clear();
            spec.scale = fill(groups, 1e-45f);
            std::vector<float> history;
            for (size_t g = 0; g < groups; ++g) {
              const float least = static_cast<float>(g);
              for (float h : {1.0f, 5.0f, 0.5f, 9.0f}) {
                history.push_back(h + least);
              }
            }
            spec.history = {history, turn % 2 == 0,
                            static_cast<int>(turn % 5) - 2};
          }
          const Flavor flavor = kFlavors[Draw(turn, 3, std::size(kFlavors))];
          Quantize(fmt::format("{} given {} {}x{}{} {} turn {}", f.name, what,
                               spec.rows, spec.cols, grouped ? " grouped" : "",
                               Name(flavor), turn),
                   spec, SuiteTensor(e, spec.rows * spec.cols, flavor));
        }
        Combination();
      }
    }
  }
}

// Lines of many vectors, and megabytes of codes, which a CPU may store without
// caching them.
TEST_P(FormatsContract, LargeMatrices) {
  constexpr Size kLarge[] = {{5, 5056}, {131, 4800}, {1050, 8224}};
  for (const Size& size : kLarge) {
    for (Element e : kElements) {
      const size_t turn = ++turn_;
      if (TooMany() || !Chosen()) continue;
      if (size.rows > 1000 && e != Element::kBF16) continue;
      QuantizeSpec spec;
      spec.format = static_cast<oracle::Format>(GetParam().format);
      spec.element = e;
      spec.rows = size.rows;
      spec.cols = size.cols;
      spec.columnwise = true;
      spec.policy = kPolicies[turn % 2];
      const Flavor flavor = size.rows > 1000
                                ? Flavor::kSpread
                                : kFlavors[Draw(turn, 3, std::size(kFlavors))];
      Quantize(fmt::format("{} large {}x{} {} turn {}", GetParam().name,
                           spec.rows, spec.cols, Name(flavor), turn),
               spec, SuiteTensor(e, spec.rows * spec.cols, flavor));
      Combination();
    }
  }
}

// No copy, only amax and dbias.
TEST_P(FormatsContract, AmaxAndDbiasWithoutCopies) {
  for (Element e : kElements) {
    for (bool grouped : {false, true}) {
      for (const Size& size : kSizes) {
        const size_t turn = ++turn_;
        QuantizeSpec spec;
        spec.format = static_cast<oracle::Format>(GetParam().format);
        spec.element = e;
        spec.rows = size.rows;
        spec.cols = size.cols;
        spec.rowwise = false;
        spec.policy = kPolicies[Draw(turn, 1, 3)];
        if (grouped) spec.splits = SplitsFor(spec.rows, turn);
        spec.want_amax = true;
        if (turn % 2) spec.dbias = kElements[turn / 2 % 3];
        if (GetParam().options & kOptHistory && spec.dbias) {
          // The history gets the amax even if it is not an output.
          const size_t groups = std::max<size_t>(1, spec.splits.size());
          spec.want_amax = turn % 4 == 1;
          spec.scale.assign(groups, 2.0f);
          spec.history = {std::vector<float>(3 * groups, 7.0f), true, 0};
        }
        const Flavor flavor = kFlavors[Draw(turn, 3, std::size(kFlavors))];
        Quantize(fmt::format("{} no copy {}x{} turn {}", GetParam().name,
                             spec.rows, spec.cols, turn),
                 spec, SuiteTensor(e, spec.rows * spec.cols, flavor));
      }
      Combination();
    }
  }
}

std::string FormatName(const testing::TestParamInfo<FormatSpec>& info) {
  return std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(, FormatsContract, testing::ValuesIn(kFormats),
                         FormatName);

}  // namespace
}  // namespace quantd
