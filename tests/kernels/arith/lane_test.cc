// Codes, scales and random words with every lane type, exhaustively if
// possible, compared with the oracle's tables and searches and with published
// numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/devices.h"
#include "tests/kernels/arith/lane_functions.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Code;
using oracle::ScaleRule;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

std::vector<const LaneFunctions*> AllLanes() {
  std::vector<const LaneFunctions*> all = {&kPlainLanes};
  const auto isas = ListCpuIsas();
  for (const LaneFunctions* lanes :
       {&kBaselineLanes, &kAvx2Lanes, &kAvx512Lanes}) {
    if (std::find(isas.begin(), isas.end(), lanes->isa) != isas.end()) {
      all.push_back(lanes);
    }
  }
  return all;
}

class LaneTest : public testing::TestWithParam<const LaneFunctions*> {
 protected:
  static const LaneFunctions& lanes() { return *GetParam(); }
};

void PadTo16(std::vector<float>& x) { x.resize((x.size() + 15) / 16 * 16); }

// Every bf16, values near every rounding point, a sweep over all patterns, and
// every midpoint of `code` with its neighbours.
std::vector<float> ManyFloats(Code code) {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0x0u, 0x1u, 0x8000u, 0xFFFFu}) {
      x.push_back(FloatOf(high << 16 | low));
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    x.push_back(FloatOf(static_cast<uint32_t>(bits)));
  }
  const int top = code == Code::kE4m3 ? 0x7E : code == Code::kE5m2 ? 0x7B : 7;
  for (int i = 0; i <= top; ++i) {
    const float a = oracle::CodeValue(code, static_cast<uint8_t>(i));
    const float b = i == top
                        ? oracle::ClipThreshold(code)
                        : oracle::CodeValue(code, static_cast<uint8_t>(i + 1));
    for (float v : {a, b, (a + b) / 2}) {
      for (float near :
           {v, std::nextafter(v, 0.0f), std::nextafter(v, INFINITY)}) {
        x.push_back(near);
        x.push_back(-near);
      }
    }
  }
  PadTo16(x);
  return x;
}

void ExpectEncodes(Code code,
                   void (*encode)(const float*, uint32_t*, int64_t)) {
  struct Case {
    std::vector<float> x;
    std::vector<uint32_t> want;
  };
  static auto& cases = *new std::array<Case, 3>;
  Case& c = cases[static_cast<int>(code)];
  if (c.x.empty()) {  // cached, because the oracle's search is slow
    c.x = ManyFloats(code);
    for (float v : c.x) c.want.push_back(oracle::CodeOf(code, v));
  }
  std::vector<uint32_t> got(c.x.size());
  encode(c.x.data(), got.data(), static_cast<int64_t>(c.x.size()));
  for (size_t i = 0; i < c.x.size(); ++i) {
    ASSERT_EQ(got[i], c.want[i]) << std::hex << BitsOf(c.x[i]);
  }
}

TEST_P(LaneTest, EncodesE4M3) {
  ExpectEncodes(Code::kE4m3, lanes().encode_e4m3);
}
TEST_P(LaneTest, EncodesE5M2) {
  ExpectEncodes(Code::kE5m2, lanes().encode_e5m2);
}
TEST_P(LaneTest, EncodesE2M1) {
  ExpectEncodes(Code::kE2m1, lanes().encode_e2m1);
}

TEST_P(LaneTest, DecodesEveryCode) {
  std::array<uint32_t, 256> codes;
  for (uint32_t i = 0; i < 256; ++i) codes[i] = i;
  const auto check = [&](const char* name, auto decode, auto want, int n) {
    std::array<float, 256> x;
    decode(codes.data(), x.data(), n);
    for (int i = 0; i < n; ++i) {
      const float expected = want(static_cast<uint8_t>(i));
      // A NaN is canonical except for its sign, which is ignored.
      const uint32_t ignored = std::isnan(expected) ? 0x80000000u : 0;
      ASSERT_EQ(BitsOf(x[i]) | ignored, BitsOf(expected) | ignored)
          << name << " " << i;
    }
  };
  check("e4m3", lanes().decode_e4m3, oracle::E4m3Value, 256);
  check("e5m2", lanes().decode_e5m2, oracle::E5m2Value, 256);
  check("e2m1", lanes().decode_e2m1, oracle::E2m1Value, 16);
  check("e8m0", lanes().decode_e8m0, oracle::E8m0Value, 256);
  check("multiplier", lanes().mx_multiplier, oracle::MxMultiplier, 256);
}

// Every bf16 magnitude with its neighbours, and random magnitudes.
std::vector<float> Maxima() {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x7F80; ++high) {
    for (uint32_t low : {0x0u, 0x1u, 0xFFFFu}) {
      x.push_back(FloatOf(high << 16 | low));
    }
  }
  x.push_back(INFINITY);
  for (uint64_t i = 0; i < 300'000; ++i) {
    const float v = FloatOf(static_cast<uint32_t>(Mix(i)) & 0x7FFFFFFF);
    if (!std::isnan(v)) x.push_back(v);
  }
  PadTo16(x);
  return x;
}

TEST_P(LaneTest, MxScales) {
  const auto x = Maxima();
  std::vector<uint32_t> got(x.size());
  for (Code code : {Code::kE2m1, Code::kE4m3, Code::kE5m2}) {
    const int emax = code == Code::kE2m1 ? 2 : code == Code::kE4m3 ? 8 : 15;
    const int bits = code == Code::kE2m1 ? 1 : code == Code::kE4m3 ? 3 : 2;
    for (ScaleRule rule : {ScaleRule::kUp, ScaleRule::kFloor, ScaleRule::kCeil,
                           ScaleRule::kEven}) {
      lanes().mx_scale({static_cast<int>(rule),
                        1.0f / oracle::LargestCode(code), emax, bits},
                       x.data(), got.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(got[i], oracle::MxScale(x[i], code, rule))
            << "code " << static_cast<int>(code) << " rule "
            << static_cast<int>(rule) << " of " << x[i];
      }
    }
  }
}

// With a factor of 1 the rule kUp gives the golden table.
TEST_P(LaneTest, Gv7RoundsExponentsUp) {
  std::vector<float> x;
  for (const auto& pair : Golden()["GV7_e8m0"]) {
    if (pair[1] != 255) x.push_back(GoldenFloat(pair[0]));  // not for NaN
  }
  ASSERT_EQ(x.size(), 14u);
  PadTo16(x);
  std::vector<uint32_t> got(x.size());
  lanes().mx_scale({0, 1.0f, 0, 0}, x.data(), got.data(), 16);
  int i = 0;
  for (const auto& pair : Golden()["GV7_e8m0"]) {
    if (pair[1] == 255) continue;
    EXPECT_EQ(got[i++], pair[1].get<uint32_t>()) << pair[0];
  }
}

// On the grid of 1/256 of a step the sum with the byte is exact, so the code
// follows from integer arithmetic: position j / 256 of a step is rounded up iff
// j + byte >= 256, which is true for j of the 256 bytes. So the mean over all
// bytes is the value.
TEST_P(LaneTest, RoundsEveryGridValueByEveryByte) {
  struct Binade {
    float low;
    float step;
    int first;  // code of `low`
    int steps;
  };
  std::vector<float> x;
  std::vector<uint32_t> bytes;
  std::vector<uint32_t> want;
  for (const Binade& b : {Binade{0, 0.5f, 0, 4}, {2, 1, 4, 2}, {4, 2, 6, 1}}) {
    for (int s = 0; s < b.steps; ++s) {
      for (int j = 0; j < 256; ++j) {
        const float v = b.low + b.step * (s + j / 256.0f);
        for (uint32_t byte = 0; byte < 256; ++byte) {
          const uint32_t code = b.first + s + (j + byte >= 256);
          x.insert(x.end(), {v, -v});
          bytes.insert(bytes.end(), {byte, byte});
          want.insert(want.end(), {code, code | 8});
        }
      }
    }
  }
  ASSERT_EQ(x.size(), 7u * 256 * 256 * 2);
  std::vector<uint32_t> got(x.size());
  lanes().encode_e2m1_stochastic(x.data(), bytes.data(), got.data(),
                                 static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << x[i] << " by " << bytes[i];
  }
}

TEST_P(LaneTest, RoundsAnythingStochasticallyAsTheOracleDoes) {
  std::vector<float> x = {6.0f,      6.5f,      1e30f,
                          INFINITY,  -1e-45f,   -0.0f,
                          NAN,       -INFINITY, FloatOf(0xFFC00001),
                          5.9999995f};
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    const uint64_t random = Mix(i);
    // Values from 2^-12 to 2^3, which matter most, and all others.
    x.push_back(FloatOf(static_cast<uint32_t>(
        i % 8 == 0
            ? random
            : (random & 0x807FFFFF) | (115 + (random >> 32) % 16) << 23)));
  }
  PadTo16(x);
  std::vector<uint32_t> bytes;
  for (size_t i = 0; i < x.size(); ++i) bytes.push_back(Mix(~i) & 255);
  std::vector<uint32_t> got(x.size());
  lanes().encode_e2m1_stochastic(x.data(), bytes.data(), got.data(),
                                 static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(got[i],
              oracle::StochasticE2m1Code(x[i], static_cast<uint8_t>(bytes[i])))
        << x[i] << " by " << bytes[i];
  }
}

// The generator's published test vectors (kat_vectors of Random123), and those
// of GV6.
TEST_P(LaneTest, PhiloxKnownAnswers) {
  struct Answer {
    uint64_t offset;
    uint64_t subsequence;
    uint64_t seed;
    uint32_t words[4];
  };
  constexpr uint64_t kAll = ~uint64_t{0};
  for (const Answer& a : {
           Answer{0, 0, 0, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
           {kAll, kAll, kAll, {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
           {0x85A308D3243F6A88,
            0x0370734413198A2E,
            0x299F31D0A4093822,
            {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
           {42,
            0x0000000300000007,
            0x0123456789ABCDEF,
            {0x1F8421A4, 0xB3B82B78, 0x762B5B38, 0xB9222CD0}},
           {43,
            0x0000000300000007,
            0x0123456789ABCDEF,
            {0x50C0E127, 0xB32EF198, 0x52F1E5A6, 0x25F1A2C1}},
       }) {
    uint32_t words[64];
    lanes().philox(a.offset, 0, a.subsequence, a.seed, words);
    for (int i = 0; i < 4 * lanes().width; ++i) {
      EXPECT_EQ(words[i], a.words[i % 4]) << "offset " << a.offset;
    }
  }
}

// Each lane separately, including counters that carry and wrap.
TEST_P(LaneTest, PhiloxCountsByAnyStep) {
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t first = i % 4 == 0   ? (uint64_t{i} << 32) - 3
                           : i % 4 == 1 ? ~uint64_t{0} - i % 7
                                        : Mix(i);
    const uint64_t step = i % 3 == 0 ? 1 : Mix(i + 7) >> (i % 64);
    uint32_t words[64];
    lanes().philox(first, step, Mix(i + 1), Mix(i + 2), words);
    for (int l = 0; l < lanes().width; ++l) {
      const auto want =
          oracle::Philox(Mix(i + 2), Mix(i + 1), first + l * step);
      for (int w = 0; w < 4; ++w) {
        ASSERT_EQ(words[4 * l + w], want[w]) << "case " << i << " lane " << l;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LaneTest, testing::ValuesIn(AllLanes()),
                         [](const auto& info) {
                           const char* isa = info.param->isa;
                           return std::string(isa ? isa : "plain");
                         });

}  // namespace
}  // namespace quantd
