// Every profile, in every format that it has, gives the oracle's bytes on every
// device of the machine, and decodes as the oracle does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"
#include "tests/kernels/contract/contract.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::QuantizeSpec;

// The sizes with which all formats are tested, and rows of many blocks.
std::vector<Size> Sizes() {
  std::vector<Size> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back({3, 4800});
  return sizes;
}

// Values for given amaxes, including those whose quotients underflow, overflow
// or are 1.
constexpr float kAmaxes[] = {
    3.0f,     0.0f,     1e-45f,  448.0f,
    1e-38f,   3e38f,    2688.0f, 1e-4f,
    7.9e-36f, 65504.0f, 1e-42f,  std::numeric_limits<float>::max()};

struct Case {
  Profile profile;
  Format format;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << Name(c.profile) << " " << Name(c.format);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const ProfileSpec& spec : Profiles()) {
    for (const ProfileFormat& f : spec.formats) {
      if (f.format != Format::kUnspecified) {
        cases.push_back({spec.profile, f.format});
      }
    }
  }
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = Cases();
  for (const FormatSpec& f : kFormats)
    cases.push_back({Profile::kTe, f.format});
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name =
      fmt::format("{}_{}", Name(info.param.profile), Name(info.param.format));
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class ProfilesContract : public ContractTest,
                         public testing::WithParamInterface<Case> {
 protected:
  // Also decodes the result, into a different type each turn.
  void Quantize(const std::string& what, const QuantizeSpec& made,
                const Bytes& x) {
    const oracle::Quantized want = ContractTest::Quantize(what, made, x);
    Combination();
    if (want.rejected) return;
    oracle::DequantizeSpec spec;
    spec.rows = made.rows;
    spec.cols = made.cols;
    spec.output = kElements[turn_ % 3];
    spec.format = made.format;
    spec.splits = made.splits;
    spec.swizzled = made.swizzled;
    spec.profile = made.profile;
    spec.made_of = made.element;
    Dequantize(what + " decoded", spec, want.rowwise);
  }
  QuantizeSpec Spec(Element e, const Size& size) const {
    QuantizeSpec spec;
    spec.profile = static_cast<oracle::Profile>(GetParam().profile);
    spec.format = static_cast<oracle::Format>(GetParam().format);
    spec.element = e;
    const int64_t block = FindFormat(GetParam().format)->block;
    const bool whole =
        oracle::IsNvfp4(spec.format) || oracle::IsMx(spec.format);
    const int64_t multiple = whole ? block : 1;
    spec.rows = size.rows;
    spec.cols = (size.cols + multiple - 1) / multiple * multiple;
    return spec;
  }
  // Draws options at random, so that every pair occurs.
  void Choose(size_t turn, QuantizeSpec* spec) const {
    const FormatSpec& format = *FindFormat(GetParam().format);
    spec->policy = kPolicies[Draw(turn, 1, 3)];
    spec->swizzled =
        Draw(turn, 2, 2) == 0 && (format.options & kOptSwizzled) != 0;
    spec->statistics = Draw(turn, 3, 2) == 0;
    spec->want_amax = Draw(turn, 4, 5) == 0;
    if (Draw(turn, 5, 4) != 0) return;
    spec->splits = SplitsFor(spec->rows, turn);
    // Sometimes leaves rows after the last group.
    if (Draw(turn, 7, 3) == 0 && spec->splits.size() > 2) {
      spec->splits.resize(spec->splits.size() - 2);
    }
  }
  bool Takes(Element e) const {
    return e != Element::kF16 || FindProfile(GetParam().profile)->f16;
  }
  std::string What(const QuantizeSpec& spec, Flavor flavor) const {
    return fmt::format("{} {} {}x{} {} {} turn {}", Name(GetParam().profile),
                       Name(GetParam().format), spec.rows, spec.cols,
                       Name(DTypeOf(spec.element)), Name(flavor), turn_);
  }

  size_t turn_ = 0;
};

TEST_P(ProfilesContract, EveryTypeFlavorAndShape) {
  const FormatSpec& format = *FindFormat(GetParam().format);
  const bool rules = FindProfile(GetParam().profile)->scale_rule &&
                     format.scaling == Scaling::kMx;
  for (Element e : kElements) {
    if (!Takes(e)) continue;
    for (Flavor flavor : kFlavors) {
      for (int rule = 0; rule < (rules ? 4 : 1); ++rule) {
        for (const Size& size : Sizes()) {
          const size_t turn = ++turn_;
          // EveryMagnitude covers the ends of the range, so a third of the
          // cases is enough here.
          const bool end = flavor == Flavor::kTiny || flavor == Flavor::kHuge ||
                           flavor == Flavor::kLonely;
          if (end && Draw(turn, 8, 3) != 0) continue;
          if (TooMany() || !Chosen()) continue;
          QuantizeSpec spec = Spec(e, size);
          spec.rule = static_cast<oracle::ScaleRule>(rule);
          Choose(turn, &spec);
          Quantize(What(spec, flavor), spec,
                   SuiteTensor(e, spec.rows * spec.cols, flavor));
        }
      }
    }
  }
}

TEST_P(ProfilesContract, GivenAmax) {
  const FormatSpec& format = *FindFormat(GetParam().format);
  if (!HasAmax(format)) return;
  for (Element e : kElements) {
    if (!Takes(e)) continue;
    for (float amax : kAmaxes) {
      for (const Size& size : Sizes()) {
        const size_t turn = ++turn_;
        if (TooMany() || !Chosen()) continue;
        QuantizeSpec spec = Spec(e, size);
        Choose(turn, &spec);
        const int64_t rows =
            spec.splits.empty()
                ? spec.rows
                : std::reduce(spec.splits.begin(), spec.splits.end());
        const size_t amaxes = format.scaling == Scaling::kChannel
                                  ? static_cast<size_t>(rows)
                                  : std::max<size_t>(1, spec.splits.size());
        spec.row_amax.assign(amaxes, amax);
        for (size_t i = 1; i < amaxes; i += 2) {
          spec.row_amax[i] = kAmaxes[(turn + i) % std::size(kAmaxes)];
        }
        const Flavor flavor = kFlavors[Draw(turn, 6, std::size(kFlavors))];
        Quantize(What(spec, flavor), spec,
                 SuiteTensor(e, spec.rows * spec.cols, flavor));
      }
    }
  }
}

// Values at and near every power of two, and near its products with 1.75 and
// the largest code, where the rules for exponents differ.
TEST_P(ProfilesContract, AroundPowersOfTwo) {
  const FormatSpec& format = *FindFormat(GetParam().format);
  const float largest = LimitsOf(format.element).max;
  for (Element e : kElements) {
    if (!Takes(e)) continue;
    std::vector<float> x;
    for (int exponent = -149; exponent < 128; ++exponent) {
      for (const float top : {1.0f, 1.75f, largest}) {
        float v = std::ldexp(top, exponent);
        if (!std::isfinite(v)) continue;
        for (int i = 0; i < 13; ++i) v = std::nextafter(v, 0.0f);
        for (int i = -13; i < 38; ++i, v = std::nextafter(v, INFINITY)) {
          if (!std::isfinite(v)) break;
          x.insert(x.end(), 128, 0.0f);
          x[x.size() - 128 + (i + 13) % 16] = v;
          x[x.size() - 127 + (i + 13) % 16] = -v / 3;
        }
      }
    }
    QuantizeSpec spec = Spec(e, {static_cast<int64_t>(x.size() / 128), 128});
    Quantize(fmt::format("powers of two, {}", Name(DTypeOf(e))), spec,
             oracle::FromValues(e, x));
  }
}

// A single row, which threads share by columns, and a million values.
TEST_P(ProfilesContract, Large) {
  for (const Size& size : {Size{1, 300160}, Size{517, 2112}}) {
    for (Element e : kElements) {
      if (!Takes(e) || TooMany() || !Chosen()) continue;
      QuantizeSpec spec = Spec(e, size);
      ++turn_;
      Quantize(What(spec, Flavor::kSpread), spec,
               SuiteTensor(e, spec.rows * spec.cols, Flavor::kSpread));
    }
  }
}

// Includes TransformerEngine's formats.
class MagnitudesContract : public ProfilesContract {};

// Small tensors of magnitudes over a type's whole range, with statistics. Most
// are near its ends, where scales, their reciprocals and products are not
// normal numbers.
TEST_P(MagnitudesContract, EveryMagnitude) {
  for (Element e : kElements) {
    if (!Takes(e)) continue;
    const bool f16 = e == Element::kF16;
    const int least = f16 ? -24 : -149, most = f16 ? 13 : 125;
    const auto step = [&](int exponent) {
      return f16 ? 1 : exponent < least + 36 || exponent > most - 16 ? 2 : 16;
    };
    for (int exponent = least; exponent <= most; exponent += step(exponent)) {
      const size_t turn = ++turn_;
      if (TooMany()) return;
      if (!Chosen()) continue;
      QuantizeSpec spec = Spec(e, {3, 160});
      std::vector<float> x = oracle::Values(
          Element::kF32, MakeTensor(Element::kF32, spec.rows * spec.cols,
                                    Flavor::kTies, turn));
      // The magnitudes of kTies are below 6.1.
      for (float& v : x) v = std::ldexp(v / 2, exponent);
      Choose(turn, &spec);
      spec.columnwise = GetParam().profile == Profile::kTe;
      spec.statistics = true;
      Quantize(
          fmt::format("{}, times 2^{}", What(spec, Flavor::kTies), exponent),
          spec, oracle::FromValues(e, x));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ProfilesContract, testing::ValuesIn(Cases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(, MagnitudesContract, testing::ValuesIn(AllCases()),
                         CaseName);

}  // namespace
}  // namespace quantd
