// Golden vectors of rotation and of plain NVFP4, tested on the oracle and on
// every device.
#include "tests/testing/golden.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "tests/kernels/golden/golden_subject.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using testing::ElementsAre;

class GoldenVectors : public GoldenTest {
 protected:
  // Scales of the copy without padding; at most four blocks in one line.
  static Bytes Scales(const oracle::Copy& copy, size_t blocks) {
    Bytes first(copy.scale.begin(),
                copy.scale.begin() + std::min(blocks, copy.scale.size()));
    return first;
  }

  // Checks a golden row as a rowwise copy of one row and as a columnwise copy
  // of one column.
  void CheckRow(const std::string& name, const nlohmann::json& row,
                std::optional<float> given) {
    const Bytes codes = GoldenBytes(row["bytes"]);
    const Bytes scales = GoldenBytes(row["sf"]);
    const int64_t n = row["x"].size();
    for (bool columnwise : {false, true}) {
      for (Element e : {Element::kBF16, Element::kF32}) {
        oracle::QuantizeSpec spec;
        spec.element = e;
        spec.rows = columnwise ? n : 1;
        spec.cols = columnwise ? 1 : n;
        spec.rowwise = !columnwise;
        spec.columnwise = columnwise;
        if (given) spec.row_amax = {*given};
        const auto values = oracle::Values(
            Element::kBF16, GoldenTensor(Element::kBF16, row["x"]));
        const auto q = subject_->Quantize(spec, oracle::FromValues(e, values));
        const oracle::Copy& copy = columnwise ? q.columnwise : q.rowwise;
        EXPECT_TRUE(BytesEq(name + " codes", codes, copy.data));
        EXPECT_TRUE(
            BytesEq(name + " scales", scales, Scales(copy, scales.size())));
        EXPECT_EQ(Bits(copy.amax), row["amax"].get<uint32_t>()) << name;
      }
    }
  }

  Bytes Decode(const nlohmann::json& row, Element output) {
    const int64_t n = row["x"].size();
    oracle::Copy copy{GoldenBytes(row["bytes"]),
                      GoldenBytes(row["sf"]),
                      {GoldenFloat(row["amax"])}};
    copy.scale.resize(4);
    copy.scale.resize(128 * 4);
    return subject_->Dequantize({1, n, false, false, 0, output}, copy);
  }

  // The bits of the single amax.
  static uint32_t Bits(const std::vector<float>& amax) {
    return amax.size() == 1 ? std::bit_cast<uint32_t>(amax[0]) : ~0u;
  }
};

TEST_P(GoldenVectors, RowsOfR) {
  const auto& masks = Golden()["R_row_neg_masks"];
  ASSERT_EQ(masks.size(), 16u);
  std::vector<float> units(256);
  for (int i = 0; i < 16; ++i) units[17 * i] = 1;
  const auto r = oracle::Values(
      Element::kF32,
      subject_->ApplyRht(Element::kF32, Element::kF32, kDefaultMask, false,
                         oracle::FromValues(Element::kF32, units)));
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      EXPECT_EQ(r[16 * i + j], masks[i].get<int>() >> j & 1 ? -0.25f : 0.25f);
    }
  }
}

TEST_P(GoldenVectors, Gv1RotatesOneVector) {
  const auto& row = Golden()["GV1"];
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  const Bytes y = GoldenTensor(Element::kBF16, row["y"]);
  const auto rotate = [&](Element out, uint16_t mask, bool inverse,
                          const Bytes& in) {
    return subject_->ApplyRht(Element::kBF16, out, mask, inverse, in);
  };
  EXPECT_TRUE(BytesEq("y", y, rotate(Element::kBF16, kDefaultMask, false, x)));
  EXPECT_TRUE(BytesEq("y in fp32", GoldenTensor(Element::kF32, row["y_f32"]),
                      rotate(Element::kF32, kDefaultMask, false, x)));
  EXPECT_TRUE(BytesEq("y, mask 0", GoldenTensor(Element::kBF16, row["y_mask0"]),
                      rotate(Element::kBF16, 0, false, x)));
  EXPECT_TRUE(BytesEq("inverse", GoldenTensor(Element::kBF16, row["inv"]),
                      rotate(Element::kBF16, kDefaultMask, true, y)));
  const auto as_row = subject_->RhtAmax(1, 16, kDefaultMask, x);
  EXPECT_THAT(as_row.row, ElementsAre(100.0f));
  EXPECT_THAT(as_row.column, ElementsAre(100.0f));
  EXPECT_THAT(as_row.row_rotated, ElementsAre(31.75f));
  const auto as_column = subject_->RhtAmax(16, 1, kDefaultMask, x);
  EXPECT_THAT(as_column.row, ElementsAre(100.0f));
  EXPECT_THAT(as_column.column_rotated, ElementsAre(31.75f));
}

TEST_P(GoldenVectors, Gv2AndGv2bOrdinaryBlocks) {
  for (const char* name : {"GV2", "GV2b"}) {
    const auto& row = Golden()[name];
    CheckRow(name, row, std::nullopt);
    CheckRow(name, row, GoldenFloat(row["amax"]));
    EXPECT_TRUE(BytesEq(name, GoldenTensor(Element::kF32, row["dq_f32"]),
                        Decode(row, Element::kF32)));
    EXPECT_TRUE(BytesEq(name, GoldenTensor(Element::kBF16, row["dq_bf16"]),
                        Decode(row, Element::kBF16)));
  }
}

TEST_P(GoldenVectors, Gv3SpecialBlocks) {
  for (const auto& [name, row] : Golden()["GV3"].items()) {
    const float amax = GoldenFloat(row["amax"]);
    if (std::isinf(amax)) {
      CheckRow(name, row, std::nullopt);  // the maximum is Inf by itself
    } else if (!std::isnan(amax)) {       // NaN cannot be given
      CheckRow(name, row, amax);
    }
    const Bytes decoded = Decode(row, Element::kF32);
    const Bytes golden = oracle::CanonicalNaNs(
        Element::kF32, GoldenTensor(Element::kF32, row["dq_f32"]));
    if (name == "tiny amax 1e-37" || name == "one +Inf") {
      // Decoding follows the scale that encoding used, not the table.
      EXPECT_NE(golden, decoded) << name;
    } else {
      EXPECT_TRUE(BytesEq(name, golden, decoded));
    }
  }
}

TEST_P(GoldenVectors, Gv3DecodesWithTheScaleThatEncodingUsed) {
  const auto& tiny = Golden()["GV3"]["tiny amax 1e-37"];
  const auto x =
      oracle::Values(Element::kBF16, GoldenTensor(Element::kBF16, tiny["x"]));
  const auto y = oracle::Values(Element::kF32, Decode(tiny, Element::kF32));
  EXPECT_NEAR(y[0] / x[0], 1, 0.1);
  EXPECT_NEAR(y[1] / x[1], 1, 0.1);
  EXPECT_EQ(y[2], 0);
  // S was 1, so the factor is the block scale 448; the codes are 7 8 2 9.
  const auto inf = oracle::Values(
      Element::kF32, Decode(Golden()["GV3"]["one +Inf"], Element::kF32));
  EXPECT_EQ(inf[0], 2688);
  EXPECT_EQ(std::bit_cast<uint32_t>(inf[1]), 0x80000000u);
  EXPECT_EQ(inf[2], 448);
  EXPECT_EQ(inf[3], -224);
}

TEST_P(GoldenVectors, Gv3AllZeroComputesItsAmax) {
  CheckRow("all zero", Golden()["GV3"]["all zero (with -0 at 1)"],
           std::nullopt);
  CheckRow("one NaN", Golden()["GV3"]["one NaN, one -3"], std::nullopt);
}

TEST_P(GoldenVectors, Gv4ColumnwisePath) {
  const auto& row = Golden()["GV4"];
  const Bytes x = GoldenTensor(Element::kBF16, row["x"]);
  EXPECT_TRUE(BytesEq("y", GoldenTensor(Element::kBF16, row["y"]),
                      subject_->ApplyRht(Element::kBF16, Element::kBF16,
                                         kDefaultMask, false, x)));
  const auto amaxes = subject_->RhtAmax(32, 1, kDefaultMask, x);
  EXPECT_THAT(amaxes.row, ElementsAre(GoldenFloat(row["row_amax"])));
  EXPECT_THAT(amaxes.column, ElementsAre(GoldenFloat(row["row_amax"])));
  EXPECT_THAT(amaxes.column_rotated, ElementsAre(GoldenFloat(row["col_amax"])));
  oracle::QuantizeSpec spec;
  spec.element = Element::kBF16;
  spec.rows = 32;
  spec.cols = 1;
  spec.rowwise = false;
  spec.columnwise = true;
  spec.rotate_columns = true;
  spec.mask = kDefaultMask;
  const auto q = subject_->Quantize(spec, x);
  EXPECT_THAT(q.columnwise.amax, ElementsAre(GoldenFloat(row["col_amax"])));
  EXPECT_TRUE(BytesEq("codes", GoldenBytes(row["bytes"]), q.columnwise.data));
  EXPECT_TRUE(
      BytesEq("scales", GoldenBytes(row["sf"]), Scales(q.columnwise, 2)));
  oracle::DequantizeSpec back{32, 1, true, false, kDefaultMask, Element::kBF16};
  EXPECT_TRUE(BytesEq("decoded", GoldenTensor(Element::kBF16, row["dq_bf16"]),
                      subject_->Dequantize(back, q.columnwise)));
  back.inverse = true;
  EXPECT_TRUE(BytesEq("inverse", GoldenTensor(Element::kBF16, row["inv"]),
                      subject_->Dequantize(back, q.columnwise)));
}

// Values whose results depend on the order of multiplications.
TEST_P(GoldenVectors, Gv9OrderOfMultiplications) {
  const auto& examples = Golden()["GV9"]["examples"];
  const auto number = [](const nlohmann::json& hex) {
    return static_cast<uint32_t>(
        std::stoul(hex.get<std::string>(), nullptr, 16));
  };
  oracle::QuantizeSpec spec;
  spec.element = Element::kBF16;
  spec.rows = 1;
  spec.cols = 16;
  const auto run = [&](const nlohmann::json& global, uint32_t first,
                       uint32_t second) {
    nlohmann::json bits(std::vector<uint32_t>(16));
    bits[0] = first;
    bits[1] = second;
    spec.row_amax = {oracle::ElementValue(Element::kBF16, number(global))};
    return subject_->Quantize(spec, GoldenTensor(Element::kBF16, bits)).rowwise;
  };
  const auto& scale = examples["bs"];
  const auto scaled = run(scale[0], number(scale[1]), 0);
  ASSERT_FALSE(scaled.scale.empty());
  EXPECT_EQ(scaled.scale[0], number(scale[2]));
  const auto& code = examples["code"];
  const auto coded = run(code[0], number(code[1]), number(code[2]));
  ASSERT_FALSE(coded.data.empty());
  EXPECT_EQ(coded.data[0] >> 4, code[3].get<int>());
}

INSTANTIATE_TEST_SUITE_P(, GoldenVectors, testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace quantd
