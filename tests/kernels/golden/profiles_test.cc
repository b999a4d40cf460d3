// The golden vectors of other libraries, asked of the oracle and of every
// device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
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

// The scales as they are stored: the vectors have all of FP8's in fp32.
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

class GoldenProfilesTest : public GoldenTest {};

TEST_P(GoldenProfilesTest, EveryVector) {
  int compared = 0;
  for (const auto& c : GoldenProfiles()["cases"]) {
    for (const auto& row : c["vectors"]) {
      const auto profile = ParseProfile(row["profile"].get<std::string>());
      const auto format = ParseFormat(row["format"].get<std::string>());
      const std::string what = row["profile"].get<std::string>() + " " +
                               row["format"].get<std::string>() + " " +
                               row.value("rule", "") + " of " +
                               c["dtype"].get<std::string>();
      SCOPED_TRACE(what);
      ASSERT_TRUE(profile && format);
      QuantizeSpec spec;
      spec.element = c["dtype"] == "bf16" ? Element::kBF16 : Element::kF32;
      spec.format = static_cast<oracle::Format>(*format);
      spec.profile = static_cast<oracle::Profile>(*profile);
      spec.rule = RuleOf(row.value("rule", "floor"));
      spec.rows = c["rows"];
      spec.cols = c["cols"];
      spec.swizzled = spec.profile == oracle::Profile::kComfy;
      Bytes x = GoldenHex(c["x"]);
      if (spec.profile == oracle::Profile::kComfy) {
        x = oracle::FromValues(Element::kF32, oracle::Values(spec.element, x));
        spec.element = Element::kF32;
      }
      const oracle::Copy copy = subject_->Quantize(spec, x).rowwise;
      EXPECT_TRUE(BytesEq(what + " codes", GoldenHex(row["codes"]), copy.data));
      const auto want = StoredScales(spec, GoldenHex(row["scales"]));
      std::vector<uint32_t> scales = ScalesOf(spec, copy);
      // Lines share a square's: the cases have one row of squares.
      if (oracle::IsSquare(spec.format)) scales.resize(want.size());
      EXPECT_THAT(scales, ElementsAreArray(want));
      if (row.contains("global")) {
        std::vector<uint32_t> bits;
        for (float g : copy.global) bits.push_back(std::bit_cast<uint32_t>(g));
        EXPECT_THAT(bits, ElementsAreArray(Words(GoldenHex(row["global"]))));
      } else {
        EXPECT_TRUE(copy.global.empty());
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 6 * 23);
}

INSTANTIATE_TEST_SUITE_P(, GoldenProfilesTest, testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace quantd
