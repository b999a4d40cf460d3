// Golden vectors of other libraries, tested on the oracle and on every device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/plan/profile/profile.h"
#include "tests/kernels/golden/golden_subject.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::QuantizeSpec;
using testing::ElementsAreArray;

oracle::ScaleRule RuleOf(const std::string& name) {
  const auto rule = ParseScaleRule(name);
  return rule ? static_cast<oracle::ScaleRule>(*rule)
              : oracle::ScaleRule::kFloor;
}

std::vector<uint32_t> Words(const Bytes& bytes) {
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), 4 * words.size());
  return words;
}

std::vector<uint32_t> Numbers(const Bytes& bytes, size_t size) {
  std::vector<uint32_t> numbers(bytes.size() / size);
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(&numbers[i], &bytes[i * size], size);
  }
  return numbers;
}

// The stored form of the scales of profiles.json, which has all FP8 scales in
// fp32.
std::vector<uint32_t> StoredScales(const QuantizeSpec& spec,
                                   const Bytes& bytes) {
  if (oracle::IsNvfp4(spec.format) || oracle::IsMx(spec.format)) {
    return {bytes.begin(), bytes.end()};
  }
  std::vector<uint32_t> words = Words(bytes);
  if (oracle::ScaleSizeOf(spec.profile, spec.format, spec.element) == 2) {
    for (uint32_t& word : words) {
      word = oracle::ElementBits(spec.element, std::bit_cast<float>(word));
    }
  }
  return words;
}

// Turns -0 into +0, because some libraries' decoders lose the sign.
Bytes WithoutSigns(Element e, Bytes bytes) {
  const size_t size = oracle::ElementSize(e);
  for (size_t i = 0; i < bytes.size(); i += size) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i], size);
    if (bits == 1u << (8 * size - 1)) bytes[i + size - 1] = 0;
  }
  return bytes;
}

class GoldenProfilesTest : public GoldenTest {
 protected:
  static QuantizeSpec SpecOf(const nlohmann::json& c,
                             const nlohmann::json& row) {
    QuantizeSpec spec;
    const auto type = ParseDType(c["dtype"].get<std::string>());
    const auto profile = ParseProfile(row["profile"].get<std::string>());
    const auto format = ParseFormat(row["format"].get<std::string>());
    EXPECT_TRUE(type && profile && format) << row["profile"];
    if (!type || !profile || !format) return spec;
    spec.element = *type == DType::kBF16  ? Element::kBF16
                   : *type == DType::kF16 ? Element::kF16
                                          : Element::kF32;
    spec.format = static_cast<oracle::Format>(*format);
    spec.profile = static_cast<oracle::Profile>(*profile);
    spec.rule = RuleOf(row.value("rule", "floor"));
    spec.rows = c["rows"];
    spec.cols = c["cols"];
    spec.swizzled = spec.profile == oracle::Profile::kComfy;
    return spec;
  }

  static void ExpectCopy(const QuantizeSpec& spec, const nlohmann::json& row,
                         const std::vector<uint32_t>& want_scales,
                         const oracle::Copy& copy) {
    EXPECT_TRUE(BytesEq("codes", GoldenHex(row["codes"]), copy.data));
    std::vector<uint32_t> scales = ScalesOf(spec, copy);
    // Lines share a square's scale, and all cases have one row of squares.
    if (oracle::IsSquare(spec.format)) scales.resize(want_scales.size());
    EXPECT_THAT(scales, ElementsAreArray(want_scales));
    if (row.contains("global")) {
      std::vector<uint32_t> bits;
      for (float g : copy.global) bits.push_back(std::bit_cast<uint32_t>(g));
      EXPECT_THAT(bits, ElementsAreArray(Words(GoldenHex(row["global"]))));
    } else {
      EXPECT_TRUE(copy.global.empty());
    }
  }

  void ExpectDecoded(const QuantizeSpec& made, const nlohmann::json& row,
                     const oracle::Copy& copy) {
    constexpr std::pair<const char*, Element> kOutputs[] = {
        {"bf16", Element::kBF16},
        {"f16", Element::kF16},
        {"f32", Element::kF32}};
    for (const auto& [name, output] : kOutputs) {
      if (!row["decoded"].contains(name)) continue;
      oracle::DequantizeSpec spec;
      spec.rows = made.rows;
      spec.cols = made.cols;
      spec.output = output;
      spec.format = made.format;
      spec.swizzled = made.swizzled;
      spec.profile = made.profile;
      spec.made_of = made.element;
      EXPECT_TRUE(
          BytesEq(name, GoldenHex(row["decoded"][name]),
                  WithoutSigns(output, subject_->Dequantize(spec, copy))));
    }
  }
};

TEST_P(GoldenProfilesTest, EveryVector) {
  int compared = 0;
  for (const auto& c : GoldenProfiles()["cases"]) {
    for (const auto& row : c["vectors"]) {
      SCOPED_TRACE(row["profile"].get<std::string>() + " " +
                   row["format"].get<std::string>() + " " +
                   row.value("rule", "") + " of " +
                   c["dtype"].get<std::string>());
      QuantizeSpec spec = SpecOf(c, row);
      Bytes x = GoldenHex(c["x"]);
      if (spec.profile == oracle::Profile::kComfy) {
        x = oracle::FromValues(Element::kF32, oracle::Values(spec.element, x));
        spec.element = Element::kF32;
      }
      ExpectCopy(spec, row, StoredScales(spec, GoldenHex(row["scales"])),
                 subject_->Quantize(spec, x).rowwise);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 6 * 23);
}

// The bytes that the libraries wrote, and the values that they decoded.
TEST_P(GoldenProfilesTest, EveryVectorOfTheLibraries) {
  int compared = 0;
  for (const auto& c : GoldenLibraries()["cases"]) {
    for (const auto& row : c["vectors"]) {
      SCOPED_TRACE(row["profile"].get<std::string>() + " " +
                   row["format"].get<std::string>() + " of " +
                   c["dtype"].get<std::string>());
      const QuantizeSpec spec = SpecOf(c, row);
      const oracle::Copy copy =
          subject_->Quantize(spec, GoldenHex(c["x"])).rowwise;
      const auto size = static_cast<size_t>(
          oracle::ScaleSizeOf(spec.profile, spec.format, spec.element));
      ExpectCopy(spec, row, Numbers(GoldenHex(row["scales"]), size), copy);
      ExpectDecoded(spec, row, copy);
      ++compared;
    }
  }
  // 6, 6 and 1 formats with three types each, and 3 formats with two types.
  EXPECT_EQ(compared, 3 * 13 + 2 * 3);
}

// Calls fn for every profile and each of its formats, with a rowwise copy of 2
// x 128.
void ForProfiles(const std::function<void(const QuantizeSpec&)>& fn) {
  for (const ProfileSpec& profile : Profiles()) {
    for (const FormatSpec& format : kFormats) {
      if (!FindNumerics(profile.profile, format.format)) continue;
      for (Element e : {Element::kF32, Element::kF16, Element::kBF16}) {
        if (e == Element::kF16 && !profile.f16) continue;
        QuantizeSpec spec;
        spec.profile = static_cast<oracle::Profile>(profile.profile);
        spec.format = static_cast<oracle::Format>(format.format);
        spec.element = e;
        spec.rows = 2;
        spec.cols = 128;
        SCOPED_TRACE(std::string(profile.name) + " " +
                     std::string(format.name) + " of " +
                     std::string(Name(DTypeOf(e))));
        fn(spec);
      }
    }
  }
}

// By FORMATS.md, the code of NaN is 7 in E2M1 and 0x7F in FP8, whatever the
// sign of the NaN. The rest of the block is 0, 1, or too small for the scale.
TEST_P(GoldenProfilesTest, NanHasTheSpecifiedCode) {
  ForProfiles([&](QuantizeSpec spec) {
    const bool half = spec.format == oracle::Format::kNvfp4 ||
                      spec.format == oracle::Format::kNvfp4Square ||
                      spec.format == oracle::Format::kMxfp4;
    for (const float rest : {0.0f, 1e-6f, 1.0f}) {
      for (const auto policy :
           {oracle::Policy::kIgnore, oracle::Policy::kPropagate}) {
        spec.policy = policy;
        std::vector<float> x(256, rest);
        x[131] = std::numeric_limits<float>::quiet_NaN();
        x[200] = -x[131];
        // With 3 as the tensor's maximum, a block of 1e-6 has the scale 0.
        if (rest != 0) x[0] = 3;
        const oracle::Copy copy =
            subject_->Quantize(spec, oracle::FromValues(spec.element, x))
                .rowwise;
        ASSERT_EQ(copy.data.size(), half ? 128u : 256u);
        const auto code = [&](size_t i) {
          if (!half) return static_cast<int>(copy.data[i]);
          const bool high = (i % 2 != 0) != oracle::HighFirst(spec.profile);
          return copy.data[i / 2] >> (high ? 4 : 0) & 0xF;
        };
        EXPECT_EQ(code(131), half ? 7 : 0x7F) << rest;
        EXPECT_EQ(code(200), half ? 7 : 0x7F) << rest;
      }
    }
  });
}

// Statistics describe the decoded values even if the maximum is NaN.
TEST_P(GoldenProfilesTest, StatisticsAreOfTheDecodedValues) {
  ForProfiles([&](QuantizeSpec spec) {
    for (const float special :
         {std::numeric_limits<float>::quiet_NaN(),
          std::numeric_limits<float>::infinity(), 1e-38f}) {
      for (const auto policy :
           {oracle::Policy::kIgnore, oracle::Policy::kPropagate}) {
        spec.policy = policy;
        spec.statistics = true;
        std::vector<float> x(256);
        for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i - 128) / 3;
        x[131] = special;
        const Bytes input = oracle::FromValues(spec.element, x);
        x = oracle::Values(spec.element, input);
        const oracle::Copy copy = subject_->Quantize(spec, input).rowwise;
        oracle::DequantizeSpec back;
        back.rows = spec.rows;
        back.cols = spec.cols;
        back.format = spec.format;
        back.profile = spec.profile;
        back.made_of = spec.element;
        const std::vector<float> d =
            oracle::Values(Element::kF32, subject_->Dequantize(back, copy));
        uint64_t elements = 0, flushed = 0;
        float max_error = 0;
        ASSERT_EQ(d.size(), x.size());
        for (size_t i = 0; i < d.size(); ++i) {
          if (!std::isfinite(x[i])) continue;
          flushed += x[i] != 0 && d[i] == 0 ? 1 : 0;
          if (!std::isfinite(d[i])) continue;
          ++elements;
          max_error = std::max(max_error, std::fabs(x[i] - d[i]));
        }
        EXPECT_EQ(copy.stats.elements, elements) << special;
        EXPECT_EQ(copy.stats.flushed, flushed) << special;
        EXPECT_EQ(copy.stats.max_error, max_error) << special;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, GoldenProfilesTest, testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace quantd
