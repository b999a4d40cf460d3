// The oracle matches the golden vectors of values that no request returns.
// tests/kernels/golden has the vectors that a request can show, for the oracle
// and every device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::FourOverSix;
using testing::ElementsAreArray;

uint32_t BitsOf(float v) { return std::bit_cast<uint32_t>(v); }

std::vector<float> Bf16(const nlohmann::json& bits) {
  return oracle::Values(Element::kBF16, GoldenTensor(Element::kBF16, bits));
}

Bytes Packed(const Bytes& codes) {
  Bytes out(codes.size() / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    out[i / 2] |= codes[i] << (i % 2 * 4);
  }
  return out;
}

TEST(OracleGoldenTest, Gv5FourOverSix) {
  const auto& rows = Golden()["GV5"];
  ASSERT_EQ(rows.size(), 16u);
  for (const auto& row : rows) {
    const bool wide = row["e4m3_max"] == 448;
    const bool fast = row["fast"];
    const auto metric =
        row["mode"] == "MAE" ? FourOverSix::kMae : FourOverSix::kMse;
    const float range = wide ? oracle::kRange448 : oracle::kRange256;
    const float a = GoldenFloat(row["gamax"]);
    const std::string what = nlohmann::json(row).dump();
    EXPECT_EQ(BitsOf(oracle::EncodeScale(a, range)),
              row["S_enc"].get<uint32_t>());
    const auto c = oracle::TryFourAndSix(Bf16(row["x"]), a, range, metric, fast,
                                         oracle::Policy::kIgnore);
    EXPECT_EQ(c.four.scale.stored, row["sf4"].get<uint32_t>()) << what;
    EXPECT_EQ(c.six.scale.stored, row["sf6"].get<uint32_t>()) << what;
    EXPECT_EQ(BitsOf(c.four.error), row["err4"].get<uint32_t>()) << what;
    EXPECT_EQ(BitsOf(c.six.error), row["err6"].get<uint32_t>()) << what;
    EXPECT_EQ(c.pick_four, row["pick"] == 4) << what;
  }
}

TEST(OracleGoldenTest, Gv6PhiloxAndStochasticRounding) {
  const auto& row = Golden()["GV6"];
  const uint64_t seed = row["seed"];
  const uint64_t sub = row["sub"];
  const uint64_t offset = row["off"];
  const auto words = [&](const char* key) {
    return ElementsAreArray(row[key].get<std::vector<uint32_t>>());
  };
  EXPECT_THAT(oracle::Philox(seed, sub, offset), words("words"));
  EXPECT_THAT(oracle::Philox(seed, sub, offset + 1), words("words43"));
  EXPECT_THAT(oracle::Philox(seed, sub, offset, 7), words("words_7_rounds"));
  EXPECT_THAT(oracle::Philox(0, 0, 0), words("words_of_zeros"));

  // Element i takes byte i % 4 of word i / 4. The subsequence is odd, so it
  // belongs to a columnwise copy; the 16 rows of block 42 start at row 42 * 16.
  const auto v = Bf16(row["v"]);
  const auto drawn = row["rbytes"].get<Bytes>();
  const auto want = row["words"].get<std::vector<uint32_t>>();
  ASSERT_EQ(v.size(), 16u);
  Bytes codes;
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(drawn[i], want[i / 4] >> (i % 4 * 8) & 0xFF);
    EXPECT_EQ(oracle::RandomByte({seed, sub / 2, true, 1}, 42 * 16 + i, 0),
              drawn[i]);
    codes.push_back(oracle::StochasticE2m1Code(v[i], drawn[i]));
    EXPECT_EQ(codes[i], row["sr_codes"][i].get<int>());
    EXPECT_EQ(oracle::E2m1Code(v[i]), row["rne_codes"][i].get<int>());
  }
  EXPECT_TRUE(BytesEq("packed", GoldenBytes(row["bytes"]), Packed(codes)));
  for (const auto& pair : row["rises_from"]) {
    const float x = pair[0].get<float>();
    const int byte = pair[1];
    const auto low = oracle::StochasticE2m1Code(x, byte - 1);
    EXPECT_EQ(oracle::StochasticE2m1Code(x, byte), low + 1) << x;
    EXPECT_EQ(oracle::StochasticE2m1Code(x, 0), low) << x;
    EXPECT_EQ(oracle::StochasticE2m1Code(x, 255), low + 1) << x;
  }
}

}  // namespace
}  // namespace quantd
