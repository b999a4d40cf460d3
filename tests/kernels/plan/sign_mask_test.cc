#include "quantd/sign_mask.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/oracle/codec.h"
#include "tests/oracle/rht.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

constexpr auto kBad = absl::StatusCode::kInvalidArgument;
const std::vector<int> kDefaultVector = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                         -1, -1, -1, 1,  -1, 1,  -1, -1};

TEST(SignMaskTest, DefaultIsTheVectorOfTransformerEngine) {
  const auto mask = SignMaskFromVector(kDefaultVector);
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(*mask, kDefaultSignMask);
  EXPECT_EQ(mask->words[0], 0xD7E8u);
  EXPECT_EQ(SignVector(*mask, 16), kDefaultVector);
}

TEST(SignMaskTest, BytesAreLittleEndian) {
  EXPECT_EQ(SignMaskToBytes(kDefaultSignMask, 16), "\xE8\xD7");
  const auto mask = SignMaskFromBytes("\xE8\xD7", 16);
  ASSERT_THAT(mask, IsOk());
  EXPECT_EQ(*mask, kDefaultSignMask);
}

TEST(SignMaskTest, EveryDimensionRoundTrips) {
  for (int n : {16, 32, 64, 128}) {
    std::vector<int> v(n, 1);
    for (int i = 0; i < n; i += 3) v[i] = -1;
    v[n - 1] = -1;
    const auto mask = SignMaskFromVector(v);
    ASSERT_THAT(mask, IsOk());
    EXPECT_EQ(SignVector(*mask, n), v);
    for (int i = 0; i < 128; ++i) {
      EXPECT_EQ(mask->negative(i), i < n && v[i] < 0);
    }
    const std::string bytes = SignMaskToBytes(*mask, n);
    EXPECT_EQ(bytes.size(), static_cast<size_t>(n / 8));
    const auto back = SignMaskFromBytes(bytes, n);
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(*back, *mask);
  }
}

TEST(SignMaskTest, LargerDimensionsRepeatTheDefaultMask) {
  EXPECT_EQ(DefaultSignMask(16), kDefaultSignMask);
  EXPECT_EQ(DefaultSignMask(32), (SignMask{{0xD7E8D7E8, 0}}));
  EXPECT_EQ(DefaultSignMask(64), (SignMask{{0xD7E8D7E8D7E8D7E8, 0}}));
  EXPECT_EQ(DefaultSignMask(128),
            (SignMask{{0xD7E8D7E8D7E8D7E8, 0xD7E8D7E8D7E8D7E8}}));
  for (int n : {16, 32, 64, 128}) {
    const std::vector<int> v = SignVector(DefaultSignMask(n), n);
    for (int i = 0; i < n; ++i) EXPECT_EQ(v[i], kDefaultVector[i % 16]);
  }
}

TEST(SignMaskTest, RandomMasksFitTheDimension) {
  for (int n : {16, 32, 64, 128}) {
    int negative = 0;
    for (uint64_t seed = 0; seed < 256; ++seed) {
      const SignMask mask = RandomSignMask(seed, n);
      EXPECT_EQ(mask, RandomSignMask(seed, n));
      for (int i = 0; i < 128; ++i) {
        ASSERT_TRUE(i < n || !mask.negative(i)) << n;
        negative += mask.negative(i);
      }
    }
    // Between 3/8 and 5/8, a margin of more than 15 sigma.
    EXPECT_GT(negative, 256 * n * 3 / 8);
    EXPECT_LT(negative, 256 * n * 5 / 8);
  }
  // The first outputs of splitmix64 with seed 0.
  EXPECT_EQ(RandomSignMask(0, 128).words[0], 0xE220A8397B1DCDAFu);
  EXPECT_NE(RandomSignMask(0, 128).words[0], RandomSignMask(0, 128).words[1]);
}

TEST(SignMaskTest, RefusesOtherVectors) {
  EXPECT_THAT(SignMaskFromVector({}), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromVector(std::vector<int>(15, 1)), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromVector(std::vector<int>(256, 1)), StatusIs(kBad));
  for (int bad : {0, 2, -2}) {
    std::vector<int> v(16, 1);
    v[15] = bad;
    EXPECT_THAT(SignMaskFromVector(v), StatusIs(kBad)) << bad;
  }
}

TEST(SignMaskTest, RefusesOtherLengths) {
  EXPECT_THAT(SignMaskFromBytes("", 16), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromBytes("a", 16), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromBytes("abc", 16), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromBytes("ab", 32), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromBytes(std::string(17, 'a'), 128), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromBytes(std::string(15, 'a'), 128), StatusIs(kBad));
}

TEST(SignMaskTest, IntegersAreMasks) {
  EXPECT_EQ(*SignMaskFromInt(55272, 16), kDefaultSignMask);
  EXPECT_EQ(SignMaskToInt(kDefaultSignMask), 55272u);
  for (int n : {16, 32, 64}) {
    const SignMask mask = RandomSignMask(7, n);
    EXPECT_EQ(*SignMaskFromInt(*SignMaskToInt(mask), n), mask) << n;
    EXPECT_EQ(*SignMaskFromBytes(SignMaskToBytes(mask, n), n), mask) << n;
  }
  EXPECT_THAT(SignMaskFromInt(0x1D7E8, 16), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromInt(0x1D7E8, 32), IsOk());
  // A negative number is not a mask of 16 bits.
  EXPECT_THAT(SignMaskFromInt(-10264, 16), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromInt(uint64_t{1} << 32, 32), StatusIs(kBad));
  EXPECT_THAT(SignMaskFromInt(~uint64_t{0}, 64), IsOk());
  EXPECT_EQ(SignMaskToInt(SignMask{{0, 1}}), std::nullopt);
}

// Row i of the matrix equals the oracle's rotation of the i-th unit vector,
// rounded once to the type.
TEST(SignMaskTest, MatricesInEveryType) {
  struct Type {
    DType dtype;
    oracle::Element element;
  };
  for (const Type& type : {Type{DType::kF32, oracle::Element::kF32},
                           Type{DType::kF16, oracle::Element::kF16},
                           Type{DType::kBF16, oracle::Element::kBF16}}) {
    for (int n : {16, 32, 64, 128}) {
      const SignMask mask = RandomSignMask(n, n);
      const auto got = RhtMatrix(mask, n, type.dtype);
      ASSERT_THAT(got, IsOk());
      std::vector<float> want;
      for (int i = 0; i < n; ++i) {
        std::vector<float> row(n);
        row[i] = 1;
        oracle::Rotate(row.data(), {mask.words[0], mask.words[1]}, n);
        want.insert(want.end(), row.begin(), row.end());
      }
      const oracle::Bytes bytes = oracle::FromValues(type.element, want);
      ASSERT_EQ(got->size(), bytes.size());
      EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0)
          << Name(type.dtype) << " " << n;
    }
  }
  // TransformerEngine's get_rht_matrix: every entry is a quarter, exact in
  // bf16.
  const auto r = RhtMatrix(kDefaultSignMask, 16, DType::kBF16);
  ASSERT_THAT(r, IsOk());
  ASSERT_EQ(r->size(), 512u);
  const auto& golden = Golden()["R_row_neg_masks"];
  for (int i = 0; i < 256; ++i) {
    uint16_t bits;
    std::memcpy(&bits, r->data() + 2 * i, 2);
    EXPECT_EQ(bits, golden[i / 16].get<int>() >> i % 16 & 1 ? 0xBE80 : 0x3E80);
  }
  EXPECT_THAT(RhtMatrix(kDefaultSignMask, 24, DType::kBF16), StatusIs(kBad));
  EXPECT_THAT(RhtMatrix(kDefaultSignMask, 16, DType::kE4M3), StatusIs(kBad));
  EXPECT_THAT(RhtMatrix(SignMask{{1 << 16, 0}}, 16, DType::kF32),
              StatusIs(kBad));
}

}  // namespace
}  // namespace quantd
