// Golden vectors of formats and options other than plain NVFP4, tested on the
// oracle and on every device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "tests/kernels/golden/golden_subject.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Format;
using oracle::FourOverSix;
using oracle::Policy;
using oracle::QuantizeSpec;
using testing::ElementsAre;
using testing::ElementsAreArray;

uint32_t BitsOf(float v) { return std::bit_cast<uint32_t>(v); }

// One copy of bf16 with `n` positions: a row, or a column.
QuantizeSpec LineSpec(Format format, int64_t n, bool columnwise) {
  QuantizeSpec spec;
  spec.element = Element::kBF16;
  spec.format = format;
  spec.rows = columnwise ? n : 1;
  spec.cols = columnwise ? 1 : n;
  spec.rowwise = !columnwise;
  spec.columnwise = columnwise;
  return spec;
}

const oracle::Copy& CopyOf(const QuantizeSpec& spec,
                           const oracle::Quantized& q) {
  return spec.columnwise ? q.columnwise : q.rowwise;
}

class GoldenFormats : public GoldenTest {
 protected:
  oracle::Copy Quantize(const QuantizeSpec& spec, const Bytes& input) {
    return CopyOf(spec, subject_->Quantize(spec, input));
  }
  Bytes Decode(const QuantizeSpec& spec, const oracle::Copy& copy,
               Element output) {
    oracle::DequantizeSpec back;
    back.rows = spec.rows;
    back.cols = spec.cols;
    back.columnwise = spec.columnwise;
    back.output = output;
    back.format = spec.format;
    return subject_->Dequantize(back, copy);
  }
};

TEST_P(GoldenFormats, Gv4EstimatedAmax) {
  const auto& gv4 = Golden()["GV4"];
  for (const auto& [key, factor] :
       {std::pair{"est2", 2.0f}, std::pair{"est1", 1.0f}}) {
    const auto& row = gv4[key];
    QuantizeSpec spec = LineSpec(Format::kNvfp4, 32, true);
    spec.rotate_columns = true;
    spec.mask = kDefaultMask;
    spec.estimation = factor;
    const auto copy = Quantize(spec, GoldenTensor(Element::kBF16, gv4["x"]));
    EXPECT_THAT(copy.amax, ElementsAre(GoldenFloat(row["amax"]))) << key;
    EXPECT_THAT(ScalesOf(spec, copy),
                ElementsAreArray(row["sf"].get<std::vector<uint32_t>>()));
    EXPECT_TRUE(BytesEq(key, GoldenBytes(row["bytes"]), copy.data));
    EXPECT_EQ(copy.stats.elements, 0) << "statistics that were not requested";
  }
}

TEST_P(GoldenFormats, Gv5FourOverSix) {
  const auto& rows = Golden()["GV5"];
  ASSERT_EQ(rows.size(), 16u);
  for (const auto& row : rows) {
    const std::string what = nlohmann::json(row).dump();
    for (bool columnwise : {false, true}) {
      QuantizeSpec spec = LineSpec(Format::kNvfp4, 16, columnwise);
      spec.row_amax = {GoldenFloat(row["gamax"])};
      spec.four_over_six =
          row["mode"] == "MAE" ? FourOverSix::kMae : FourOverSix::kMse;
      spec.scale_256 = row["e4m3_max"] == 256;
      spec.fast_error = row["fast"];
      const auto copy = Quantize(spec, GoldenTensor(Element::kBF16, row["x"]));
      const char* picked = row["pick"] == 4 ? "sf4" : "sf6";
      EXPECT_THAT(ScalesOf(spec, copy),
                  ElementsAre(row[picked].get<uint32_t>()))
          << what;
      EXPECT_TRUE(BytesEq(what, GoldenBytes(row["bytes"]), copy.data));
    }
  }
}

// GV11 was made by a numpy implementation of FORMATS.md. Its blocks take every
// candidate, saturate, have subnormal scales, or hold zeros.
TEST_P(GoldenFormats, Gv11ScaleSearch) {
  const auto& rows = Golden()["GV11"];
  ASSERT_EQ(rows.size(), 15u);
  for (const auto& row : rows) {
    const std::string what = nlohmann::json(row).dump();
    for (bool columnwise : {false, true}) {
      QuantizeSpec spec = LineSpec(Format::kNvfp4, 16, columnwise);
      spec.row_amax = {GoldenFloat(row["gamax"])};
      spec.scale_search = true;
      const auto copy = Quantize(spec, GoldenTensor(Element::kBF16, row["x"]));
      EXPECT_THAT(ScalesOf(spec, copy), ElementsAre(row["sf"].get<uint32_t>()))
          << what;
      EXPECT_TRUE(BytesEq(what, GoldenBytes(row["bytes"]), copy.data));
    }
  }
}

// GV6 has an odd subsequence, as a columnwise copy has, and Philox offset 42.
// In a matrix with one column, that offset belongs to the 16 rows from row 42 *
// 16 on.
TEST_P(GoldenFormats, Gv6StochasticRounding) {
  const auto& row = Golden()["GV6"];
  QuantizeSpec spec = LineSpec(Format::kNvfp4, 16, true);
  spec.stochastic = true;
  spec.seed = row["seed"];
  spec.seed_offset = row["sub"].get<uint64_t>() / 2;
  spec.row_offset = 42 * 16;
  spec.total_columns = 1;
  const Bytes x = GoldenTensor(Element::kBF16, row["v"]);
  // S = 2^-9, which is also the block's scale: elements are multiplied by 1.
  spec.row_amax = {2688.0f * 512.0f};
  const auto nvfp4 = Quantize(spec, x);
  EXPECT_THAT(ScalesOf(spec, nvfp4), ElementsAre(0x01));
  EXPECT_TRUE(BytesEq("nvfp4", GoldenBytes(row["bytes"]), nvfp4.data));
  spec.stochastic = false;
  const auto nearest = Quantize(spec, x);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(nearest.data.at(i / 2) >> (i % 2 * 4) & 15,
              row["rne_codes"][i].get<int>());
  }
  // MXFP4: the largest magnitude is about 6.4, with exponent 2. kFloor
  // subtracts emax = 2, so the scale is 2^0.
  spec.row_amax.clear();
  spec.stochastic = true;
  spec.format = Format::kMxfp4;
  spec.rule = oracle::ScaleRule::kFloor;
  const auto mxfp4 = Quantize(spec, x);
  EXPECT_THAT(ScalesOf(spec, mxfp4), ElementsAre(0x7F));
  Bytes padded = GoldenBytes(row["bytes"]);
  padded.resize(16);
  EXPECT_TRUE(BytesEq("mxfp4", padded, mxfp4.data));
}

TEST_P(GoldenFormats, Gv7Mxfp8) {
  const auto& row = Golden()["GV7"];
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  for (bool columnwise : {false, true}) {
    QuantizeSpec spec = LineSpec(Format::kMxfp8E4M3, 32, columnwise);
    const auto e4m3 = Quantize(spec, x);
    EXPECT_THAT(ScalesOf(spec, e4m3), ElementsAre(0x7B));
    EXPECT_TRUE(BytesEq("e4m3", GoldenBytes(row["data"]), e4m3.data));
    EXPECT_TRUE(BytesEq("decoded", GoldenTensor(Element::kBF16, row["dq_bf16"]),
                        Decode(spec, e4m3, Element::kBF16)));
    spec.rule = oracle::ScaleRule::kFloor;
    EXPECT_THAT(ScalesOf(spec, Quantize(spec, x)), ElementsAre(0x7A));
    spec.rule = oracle::ScaleRule::kUp;
    spec.format = Format::kMxfp8E5M2;
    const auto e5m2 = Quantize(spec, x);
    EXPECT_THAT(ScalesOf(spec, e5m2), ElementsAre(0x74));
    EXPECT_TRUE(BytesEq("e5m2", GoldenBytes(row["e5m2_data"]), e5m2.data));
  }
}

// The rows of the E8M0 table whose value is a product fl32(amax * fl32(1 /
// element_max)) in one of the formats.
TEST_P(GoldenFormats, Gv7ExponentsVisibleInReplies) {
  int shown = 0;
  for (const auto& pair : Golden()["GV7_e8m0"]) {
    const float wanted = GoldenFloat(pair[0]);
    for (Format f : {Format::kMxfp8E4M3, Format::kMxfp8E5M2, Format::kMxfp4}) {
      const float largest = f == Format::kMxfp8E4M3   ? 448.0f
                            : f == Format::kMxfp8E5M2 ? 57344.0f
                                                      : 6.0f;
      // Looks for a number next to `x` that has the wanted product. There may
      // be none.
      float x = wanted * largest;
      const auto scaled = [&] { return x * (1.0f / largest); };
      for (int i = 0; i < 4 && scaled() < wanted; ++i) {
        x = std::nextafter(x, INFINITY);
      }
      for (int i = 0; i < 4 && scaled() > wanted; ++i) {
        x = std::nextafter(x, 0.0f);
      }
      if (scaled() != wanted || (std::isinf(x) && std::isfinite(wanted))) {
        continue;
      }
      QuantizeSpec spec = LineSpec(f, 32, false);
      spec.element = Element::kF32;
      std::vector<float> values(32);
      values[5] = -x;
      const auto copy =
          Quantize(spec, oracle::FromValues(Element::kF32, values));
      EXPECT_THAT(ScalesOf(spec, copy), ElementsAre(pair[1].get<uint32_t>()))
          << std::hex << pair[0];
      ++shown;
    }
  }
  EXPECT_GE(shown, 20);
}

// Tests every entry of every row of the golden table, with a tensor whose
// largest magnitude is the row's `amax`.
TEST_P(GoldenFormats, Gv8ScalesOfFp8Tensors) {
  ASSERT_EQ(Golden()["GV8"].size(), 7u);
  for (const auto& row : Golden()["GV8"]) {
    const auto& number = row["amax"];
    const float amax = number == "inf"   ? INFINITY
                       : number == "nan" ? NAN
                                         : number.get<float>();
    for (bool columnwise : {false, true}) {
      QuantizeSpec plain = LineSpec(Format::kFp8E4M3, 3, columnwise);
      plain.element = Element::kF32;
      plain.policy = Policy::kPropagate;
      const Bytes x = oracle::FromValues(Element::kF32, {0.0f, -amax, 0.0f});
      const auto current = [&](const char* key, const QuantizeSpec& spec) {
        const auto copy = Quantize(spec, x);
        const float scale = GoldenFloat(row[key]);
        EXPECT_THAT(ScalesOf(spec, copy), ElementsAre(BitsOf(1.0f / scale)))
            << key << " " << amax;
        ASSERT_EQ(copy.amax.size(), 1u);
        EXPECT_EQ(BitsOf(copy.amax[0]),
                  std::isnan(amax) ? 0x7FC00000u : BitsOf(amax));
      };
      current("cur", plain);
      QuantizeSpec spec = plain;
      spec.power_of_two = true;
      current("cur_p2", spec);
      spec = plain;
      spec.epsilon = 1e-12f;
      current("cur_eps", spec);
      spec = plain;
      spec.format = Format::kFp8E5M2;
      current("cur_e5m2", spec);
      const auto delayed = [&](const char* key, int margin) {
        spec = plain;
        spec.scale = {7.0f};
        spec.history = {{99.0f}, margin != 0, margin};
        const auto q = subject_->Quantize(spec, x);
        EXPECT_THAT(ScalesOf(spec, CopyOf(spec, q)),
                    ElementsAre(BitsOf(1.0f / 7.0f)));
        EXPECT_THAT(q.next_scale, ElementsAre(GoldenFloat(row[key])))
            << key << " " << amax;
      };
      delayed("dly", 0);
      delayed("dly_m2", 2);
    }
  }
}

TEST_P(GoldenFormats, Gv8Elements) {
  const auto& row = Golden()["GV8_x"];
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  for (bool columnwise : {false, true}) {
    QuantizeSpec spec = LineSpec(Format::kFp8E4M3, 8, columnwise);
    // The largest magnitude is 3, so current and delayed scaling agree.
    for (bool delayed : {false, true}) {
      if (delayed) spec.scale = {GoldenFloat(row["scale"])};
      const auto copy = Quantize(spec, x);
      EXPECT_TRUE(BytesEq("data", GoldenBytes(row["data"]), copy.data));
      EXPECT_THAT(ScalesOf(spec, copy),
                  ElementsAre(row["scale_inv"].get<uint32_t>()));
      EXPECT_TRUE(BytesEq("decoded",
                          GoldenTensor(Element::kBF16, row["dq_bf16"]),
                          Decode(spec, copy, Element::kBF16)));
    }
  }
}

// A matrix with a single nonzero block shows where its scale is stored.
TEST_P(GoldenFormats, Gv10SwizzledIndex) {
  ASSERT_EQ(Golden()["GV10"].size(), 8u);
  for (const auto& row : Golden()["GV10"]) {
    const int64_t line = row[0];
    const int64_t block = row[1];
    const int64_t blocks = row[2];
    const auto index = row[3].get<size_t>();
    for (Format f : {Format::kNvfp4, Format::kMxfp8E5M2, Format::kMxfp4}) {
      const int64_t n = oracle::BlockOf(f);
      for (bool columnwise : {false, true}) {
        QuantizeSpec spec = LineSpec(f, 1, columnwise);
        spec.rows = columnwise ? blocks * n : 201;
        spec.cols = columnwise ? 201 : blocks * n;
        spec.swizzled = true;
        std::vector<float> x(spec.rows * spec.cols);
        const int64_t at = block * n + 3;
        x[columnwise ? at * spec.cols + line : line * spec.cols + at] = 1;
        const auto copy = Quantize(spec, oracle::FromValues(Element::kBF16, x));
        ASSERT_EQ(copy.scale.size(), size_t(256 * ((blocks + 3) / 4 * 4)));
        for (size_t i = 0; i < copy.scale.size(); ++i) {
          ASSERT_EQ(copy.scale[i] != 0, i == index) << row << " at " << i;
        }
      }
    }
  }
}

TEST_P(GoldenFormats, OwnVectorsOfFormats) {
  ASSERT_EQ(FormatVectors().size(), 26u);
  for (const FormatVector& v : FormatVectors()) {
    const auto q = subject_->Quantize(v.spec, v.input);
    const oracle::Copy& copy = CopyOf(v.spec, q);
    EXPECT_TRUE(BytesEq(v.name, v.data, copy.data));
    EXPECT_EQ(ScalesOf(v.spec, copy), v.scales) << v.name;
    EXPECT_EQ(copy.amax, v.amax) << v.name;
    EXPECT_EQ(q.next_scale, v.next_scale) << v.name;
    EXPECT_EQ(q.history, v.history) << v.name;
    EXPECT_TRUE(BytesEq(
        v.name + ", decoded",
        oracle::CanonicalNaNs(Element::kF32,
                              oracle::FromValues(Element::kF32, v.decoded)),
        Decode(v.spec, copy, Element::kF32)));
  }
}

INSTANTIATE_TEST_SUITE_P(, GoldenFormats, testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace quantd
