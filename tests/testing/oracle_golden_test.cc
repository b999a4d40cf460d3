// The oracle matches the golden vectors of values that no request returns, and
// of formats and options beyond plain NVFP4. The vectors that devices can
// compute, too, are in tests/kernels/golden/golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Code;
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

TEST(OracleGoldenTest, Gv2AndGv3EncodeScalesAndMultipliers) {
  for (const char* name : {"GV2", "GV2b"}) {
    const auto& row = Golden()[name];
    const float s = oracle::EncodeScale(GoldenFloat(row["amax"]));
    EXPECT_EQ(BitsOf(s), row["S_enc"].get<uint32_t>());
    const auto x = Bf16(row["x"]);
    for (size_t b = 0; b < x.size() / 16; ++b) {
      const auto block =
          oracle::EncodeBlock(&x[16 * b], s, oracle::Policy::kIgnore);
      EXPECT_EQ(block.scale, row["sf"][b].get<int>()) << name;
      EXPECT_EQ(BitsOf(block.multiplier), row["mult"][b].get<uint32_t>());
    }
  }
  for (const auto& [name, row] : Golden()["GV3"].items()) {
    const float s = oracle::EncodeScale(GoldenFloat(row["amax"]));
    EXPECT_EQ(BitsOf(s), row["S_enc"].get<uint32_t>()) << name;
    const auto x = Bf16(row["x"]);
    const auto block =
        oracle::EncodeBlock(x.data(), s, oracle::Policy::kIgnore);
    EXPECT_EQ(block.scale, row["sf"][0].get<int>()) << name;
    EXPECT_EQ(BitsOf(block.multiplier), row["mult"].get<uint32_t>()) << name;
    const Bytes codes(block.codes.begin(), block.codes.end());
    EXPECT_TRUE(BytesEq(name, GoldenBytes(row["bytes"]), Packed(codes)));
  }
}

TEST(OracleGoldenTest, Gv4EstimatedAmax) {
  const auto& gv4 = Golden()["GV4"];
  EXPECT_EQ(BitsOf(oracle::EncodeScale(GoldenFloat(gv4["col_amax"]))),
            gv4["S_enc"].get<uint32_t>());
  for (const auto& [key, factor] :
       {std::pair{"est2", 2.0f}, std::pair{"est1", 1.0f}}) {
    const auto& row = gv4[key];
    oracle::QuantizeSpec spec;
    spec.element = Element::kBF16;
    spec.rows = 32;
    spec.cols = 1;
    spec.rowwise = false;
    spec.columnwise = true;
    spec.rotate_columns = true;
    spec.mask = 0xD7E8;
    spec.estimation = factor;
    const auto q =
        oracle::Quantize(spec, GoldenTensor(Element::kBF16, gv4["x"]));
    ASSERT_EQ(q.columnwise.amax.size(), 1u);
    EXPECT_EQ(BitsOf(q.columnwise.amax[0]), row["amax"].get<uint32_t>());
    EXPECT_EQ(BitsOf(oracle::EncodeScale(q.columnwise.amax[0])),
              row["S_enc"].get<uint32_t>());
    EXPECT_THAT(ScalesOf(spec, q.columnwise),
                ElementsAreArray(row["sf"].get<std::vector<uint32_t>>()));
    EXPECT_TRUE(BytesEq(key, GoldenBytes(row["bytes"]), q.columnwise.data));
  }
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
    for (bool columnwise : {false, true}) {
      oracle::QuantizeSpec spec;
      spec.element = Element::kBF16;
      spec.rows = columnwise ? 16 : 1;
      spec.cols = columnwise ? 1 : 16;
      spec.rowwise = !columnwise;
      spec.columnwise = columnwise;
      spec.row_amax = {a};
      spec.four_over_six = metric;
      spec.scale_256 = !wide;
      spec.fast_error = fast;
      const auto q =
          oracle::Quantize(spec, GoldenTensor(Element::kBF16, row["x"]));
      const auto& copy = columnwise ? q.columnwise : q.rowwise;
      EXPECT_TRUE(BytesEq(what, GoldenBytes(row["bytes"]), copy.data));
      EXPECT_EQ(ScalesOf(spec, copy).at(0),
                row[c.pick_four ? "sf4" : "sf6"].get<uint32_t>());
    }
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

TEST(OracleGoldenTest, Gv7Mxfp8) {
  const auto& row = Golden()["GV7"];
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  oracle::QuantizeSpec spec;
  spec.element = Element::kBF16;
  spec.rows = 1;
  spec.cols = 32;
  spec.format = oracle::Format::kMxfp8E4M3;
  const auto e4m3 = oracle::Quantize(spec, x).rowwise;
  EXPECT_EQ(ScalesOf(spec, e4m3).at(0), row["scale"].get<uint32_t>());
  EXPECT_TRUE(BytesEq("e4m3", GoldenBytes(row["data"]), e4m3.data));
  oracle::DequantizeSpec back;
  back.rows = 1;
  back.cols = 32;
  back.output = Element::kBF16;
  back.format = spec.format;
  EXPECT_TRUE(BytesEq("decoded", GoldenTensor(Element::kBF16, row["dq_bf16"]),
                      oracle::Dequantize(back, e4m3)));
  spec.rule = oracle::ScaleRule::kFloor;
  EXPECT_EQ(ScalesOf(spec, oracle::Quantize(spec, x).rowwise).at(0),
            row["floor_scale"].get<uint32_t>());
  spec.rule = oracle::ScaleRule::kUp;
  spec.format = oracle::Format::kMxfp8E5M2;
  const auto e5m2 = oracle::Quantize(spec, x).rowwise;
  EXPECT_EQ(ScalesOf(spec, e5m2).at(0), row["e5m2_scale"].get<uint32_t>());
  EXPECT_TRUE(BytesEq("e5m2", GoldenBytes(row["e5m2_data"]), e5m2.data));
  for (const auto& pair : Golden()["GV7_e8m0"]) {
    EXPECT_EQ(oracle::E8m0Up(GoldenFloat(pair[0])), pair[1].get<int>());
  }
}

TEST(OracleGoldenTest, Gv8ScalesOfFp8Tensors) {
  ASSERT_EQ(Golden()["GV8"].size(), 7u);
  for (const auto& row : Golden()["GV8"]) {
    const auto& number = row["amax"];
    const float amax = number == "inf"   ? INFINITY
                       : number == "nan" ? NAN
                                         : number.get<float>();
    const auto expect = [&](const char* key, float scale) {
      EXPECT_EQ(BitsOf(scale), row[key].get<uint32_t>()) << key << " " << amax;
    };
    expect("cur", oracle::CurrentScale(amax, Code::kE4m3));
    expect("cur_p2", oracle::CurrentScale(amax, Code::kE4m3, 0, true));
    expect("cur_eps", oracle::CurrentScale(amax, Code::kE4m3, 1e-12f));
    expect("cur_e5m2", oracle::CurrentScale(amax, Code::kE5m2));
    expect("dly", oracle::NextScale({{amax}, false, 0}, Code::kE4m3, 7.0f));
    expect("dly_m2", oracle::NextScale({{amax}, true, 2}, Code::kE4m3, 7.0f));
  }
}

TEST(OracleGoldenTest, Gv8Elements) {
  const auto& row = Golden()["GV8_x"];
  oracle::QuantizeSpec spec;
  spec.element = Element::kBF16;
  spec.rows = 1;
  spec.cols = 8;
  spec.format = oracle::Format::kFp8E4M3;
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  const float scale = GoldenFloat(row["scale"]);
  EXPECT_EQ(oracle::CurrentScale(3.0f, Code::kE4m3), scale);
  // The largest magnitude is 3, so current and delayed scaling agree.
  for (bool delayed : {false, true}) {
    if (delayed) spec.scale = {scale};
    const auto copy = oracle::Quantize(spec, x).rowwise;
    EXPECT_TRUE(BytesEq("data", GoldenBytes(row["data"]), copy.data));
    EXPECT_EQ(ScalesOf(spec, copy).at(0), row["scale_inv"].get<uint32_t>());
    oracle::DequantizeSpec back;
    back.rows = 1;
    back.cols = 8;
    back.output = Element::kBF16;
    back.format = spec.format;
    EXPECT_TRUE(BytesEq("decoded", GoldenTensor(Element::kBF16, row["dq_bf16"]),
                        oracle::Dequantize(back, copy)));
  }
}

TEST(OracleGoldenTest, Gv9Multiplier) {
  const auto& row = Golden()["GV9"]["examples"]["mu"];
  const auto number = [&](int i) {
    return static_cast<uint32_t>(
        std::stoul(row[i].get<std::string>(), nullptr, 16));
  };
  const float a = oracle::ElementValue(Element::kBF16, number(0));
  const float b = oracle::ElementValue(Element::kBF16, number(1));
  EXPECT_EQ(BitsOf(oracle::Nvfp4Scale(b, oracle::EncodeScale(a)).multiplier),
            number(2));
}

TEST(OracleGoldenTest, Gv10SwizzledIndex) {
  ASSERT_EQ(Golden()["GV10"].size(), 8u);
  for (const auto& row : Golden()["GV10"]) {
    EXPECT_EQ(oracle::SwizzleIndex(row[0], row[1], row[2]),
              row[3].get<int64_t>());
  }
}

TEST(OracleGoldenTest, OwnVectorsOfFormats) {
  EXPECT_EQ(FormatVectors().size(), 26u);
  for (const FormatVector& v : FormatVectors()) {
    const auto q = oracle::Quantize(v.spec, v.input);
    const auto& copy = v.spec.columnwise ? q.columnwise : q.rowwise;
    EXPECT_TRUE(BytesEq(v.name, v.data, copy.data));
    EXPECT_EQ(ScalesOf(v.spec, copy), v.scales) << v.name;
    EXPECT_EQ(copy.amax, v.amax) << v.name;
    EXPECT_EQ(q.next_scale, v.next_scale) << v.name;
    EXPECT_EQ(q.history, v.history) << v.name;
    oracle::DequantizeSpec back;
    back.rows = v.spec.rows;
    back.cols = v.spec.cols;
    back.columnwise = v.spec.columnwise;
    back.format = v.spec.format;
    EXPECT_TRUE(BytesEq(v.name + ", decoded",
                        oracle::FromValues(Element::kF32, v.decoded),
                        oracle::Dequantize(back, copy)));
  }
}

}  // namespace
}  // namespace quantd
