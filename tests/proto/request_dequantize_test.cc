// Tests of DequantizeRequest in every format: the required payload, the amax as
// a field, and the rules for refs.
#include <gtest/gtest.h>

#include <string>

#include "tests/proto/requests.h"

namespace quantd::wire {
namespace {

// Returns a request for 4 x 32 with a back-to-back payload of `bytes`.
v1::DequantizeRequest Of(v1::Format format, size_t bytes) {
  v1::DequantizeRequest m = Dequantize();
  m.mutable_options()->set_format(format);
  m.set_payload(Bytes(bytes));
  return m;
}

void SetRows(std::initializer_list<int64_t> rows, v1::DequantizeRequest* m) {
  for (int64_t n : rows) m->mutable_options()->mutable_splits()->add_rows(n);
}

TEST(ReadDequantize, AcceptsEveryFormatBackToBack) {
  const struct {
    v1::Format format;
    size_t rowwise, columnwise;
  } kCases[] = {
      // The payload has codes, scales and, for NVFP4, 4 bytes of amax.
      {v1::FORMAT_NVFP4, 64 + 512 + 4, 256 + 512 + 4},
      {v1::FORMAT_NVFP4_2D, 64 + 512 + 4, 256 + 512 + 4},
      {v1::FORMAT_FP8_E4M3, 128 + 4, 128 + 4},
      {v1::FORMAT_FP8_E5M2, 128 + 4, 128 + 4},
      {v1::FORMAT_MXFP8_E4M3, 128 + 512, 128 + 512},
      {v1::FORMAT_MXFP8_E5M2, 128 + 512, 128 + 512},
      {v1::FORMAT_MXFP4, 64 + 512, 512 + 512},
      {v1::FORMAT_FP8_BLOCK_E4M3, 128 + 16, 128 + 128},
      {v1::FORMAT_FP8_BLOCK_E5M2, 128 + 16, 128 + 128},
      {v1::FORMAT_FP8_BLOCK_2D_E4M3, 128 + 16, 128 + 16},
      {v1::FORMAT_FP8_BLOCK_2D_E5M2, 128 + 16, 128 + 16},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(v1::Format_Name(c.format));
    v1::DequantizeRequest m = Of(c.format, c.rowwise);
    EXPECT_THAT(Parse(m), IsOk());
    m.mutable_payload()->push_back('x');
    EXPECT_FALSE(Parse(m).ok());
    m.mutable_options()->set_usage(v1::USAGE_COLUMNWISE);
    m.set_payload(Bytes(c.columnwise));
    const auto request = Parse(m);
    ASSERT_THAT(request, IsOk());
    size_t at = request->sources[0].range.offset;
    for (const Request::Source& source : request->sources) {
      EXPECT_EQ(source.range.offset, at);
      at += source.range.size;
    }
  }
}

TEST(ReadDequantize, FormAndSplitsReachThePlan) {
  v1::DequantizeRequest m = Of(v1::FORMAT_NVFP4_2D, 64 + 2 + 4);
  m.mutable_options()->mutable_form()->set_compact_scales(true);
  m.mutable_options()->mutable_form()->set_scale_256(true);
  const auto request = Parse(m);
  ASSERT_THAT(request, IsOk());
  const auto& options = std::get<DequantizeOptions>(request->plan->options());
  EXPECT_TRUE(options.form.compact_scales);
  EXPECT_TRUE(options.form.scale_256);
  EXPECT_FALSE(options.splits.has_value());

  // Three groups with one empty group have two scale tensors and three amaxes.
  v1::DequantizeRequest groups = Of(v1::FORMAT_NVFP4, 64 + 1024 + 12);
  SetRows({1, 0, 3}, &groups);
  EXPECT_THAT(Parse(groups), IsOk());
  v1::DequantizeRequest rows = Of(v1::FORMAT_NVFP4, 64 + 512 + 16);
  rows.mutable_options()->mutable_form()->set_row_scaled(true);
  EXPECT_THAT(Parse(rows), IsOk());
  EXPECT_WRONG(Dequantize(), o.mutable_splits(), "splits", "1 to 16384 groups",
               "0");
}

TEST(ReadDequantize, ErrorsUseTheRequestsFieldNames) {
  EXPECT_WRONG(Of(v1::FORMAT_FP8_E4M3, 132), o.mutable_inverse_rht(),
               "inverse_rht",
               "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
               "rht with fp8_e4m3");
  EXPECT_WRONG(Of(v1::FORMAT_MXFP4, 64 + 512),
               o.mutable_form()->set_scale_256(true), "form.scale_256",
               "four_over_six only with nvfp4, nvfp4_2d",
               "four_over_six with mxfp4");
  EXPECT_WRONG(Dequantize(),
               o.mutable_form()->set_scale_layout(static_cast<v1::Layout>(3)),
               "form.scale_layout", "linear or swizzled", "number 3");
  EXPECT_WRONG(Dequantize(),
               (o.mutable_form()->set_row_scaled(true),
                o.mutable_inverse_rht()->set_dimension(32)),
               "form.row_scaled", "row_scaled or rht, not both", "both");
  EXPECT_WRONG(Dequantize(), o.mutable_inverse_rht()->set_dimension(128),
               "tensor.shape",
               "K (the product of the dimensions from flatten_axis on) a "
               "multiple of 128 for the rowwise rotation",
               "K = 32");
}

TEST(ReadDequantize, AmaxFieldIsLegalOnlyForASingleAmax) {
  const std::string only = "no amax, except with nvfp4, nvfp4_2d";
  const std::string got = "an amax with a format that does not use it";
  EXPECT_WRONG(Of(v1::FORMAT_FP8_E4M3, 132), m.set_amax(1), "amax", only, got);
  EXPECT_WRONG(Of(v1::FORMAT_MXFP8_E5M2, 640), m.set_amax(1), "amax", only,
               got);
  EXPECT_WRONG(Of(v1::FORMAT_FP8_BLOCK_2D_E4M3, 144), m.set_amax(1), "amax",
               only, got);
  EXPECT_WRONG(Of(v1::FORMAT_NVFP4, 64 + 512 + 16),
               (o.mutable_form()->set_row_scaled(true), m.set_amax(1)), "amax",
               "4 values in the payload, not this field", "one value");
  EXPECT_WRONG(Of(v1::FORMAT_NVFP4, 64 + 1024 + 8),
               (SetRows({1, 3}, &m), m.set_amax(1)), "amax",
               "2 values in the payload, not this field", "one value");
  EXPECT_WRONG(Of(v1::FORMAT_NVFP4, 0),
               (m.mutable_tensor()->set_shape(0, 0),
                o.mutable_form()->set_row_scaled(true), m.set_amax(1)),
               "amax", "0 values in the payload, not this field", "one value");
  // One group of one row has a single amax.
  v1::DequantizeRequest m = Of(v1::FORMAT_NVFP4, 64 + 512);
  m.set_amax(1);
  SetRows({4}, &m);
  EXPECT_THAT(Parse(m), IsOk());
  m = Of(v1::FORMAT_NVFP4, 16 + 512);
  m.mutable_tensor()->set_shape(0, 1);
  m.mutable_options()->mutable_form()->set_row_scaled(true);
  m.set_amax(1);
  EXPECT_THAT(Parse(m), IsOk());
}

v1::DequantizeRequest GroupsWithRefs() {
  v1::DequantizeRequest m = Of(v1::FORMAT_NVFP4, 64 + 1024 + 8);
  SetRows({1, 3}, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_DATA, 0, 64, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_SCALE, 64, 1024, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_AMAX, 1088, 8, &m);
  for (uint64_t offset : {0, 16, 64}) {
    m.mutable_tensors(0)->add_group_offsets(offset);
  }
  for (uint64_t offset : {0, 512, 1024}) {
    m.mutable_tensors(1)->add_group_offsets(offset);
  }
  return m;
}

TEST(ReadDequantize, GroupOffsetsOfRefsMustMatchTheSplits) {
  EXPECT_THAT(Parse(GroupsWithRefs()), IsOk());
  v1::DequantizeRequest without = GroupsWithRefs();
  without.mutable_tensors(0)->clear_group_offsets();
  EXPECT_THAT(Parse(without), IsOk());
  EXPECT_WRONG(GroupsWithRefs(), m.mutable_tensors(0)->set_group_offsets(1, 48),
               "tensors[0].group_offsets[1]", "16, which follows from splits",
               "48");
  EXPECT_WRONG(GroupsWithRefs(),
               m.mutable_tensors(1)->set_group_offsets(2, ~uint64_t{0}),
               "tensors[1].group_offsets[2]", "1024, which follows from splits",
               "18446744073709551615");
  EXPECT_WRONG(GroupsWithRefs(), m.mutable_tensors(1)->add_group_offsets(1024),
               "tensors[1].group_offsets", "3, one more than splits", "4");
  EXPECT_WRONG(GroupsWithRefs(), m.mutable_tensors(2)->add_group_offsets(0),
               "tensors[2].group_offsets", "3, one more than splits", "1");
  EXPECT_WRONG(GroupsWithRefs(),
               for (uint64_t at
                    : {0, 0, 8}) m.mutable_tensors(2)
                   ->add_group_offsets(at),
               "tensors[2].group_offsets[1]", "4, which follows from splits",
               "0");
  // An ungrouped request has no group offsets.
  EXPECT_WRONG(DequantizeWithRefs(), m.mutable_tensors(0)->add_group_offsets(0),
               "tensors[0].group_offsets", "none", "1");
}

TEST(ReadDequantize, ShapesOfRefsMustMatchTheTensor) {
  const auto shaped = [] {
    v1::DequantizeRequest m = DequantizeWithRefs();
    for (int64_t d : {4, 16}) m.mutable_tensors(0)->add_shape(d);
    for (int64_t d : {128, 4}) m.mutable_tensors(1)->add_shape(d);
    m.mutable_tensors(2)->add_shape(1);
    return m;
  };
  EXPECT_THAT(Parse(shaped()), IsOk());
  // The shape of another matrix with the same number of bytes.
  EXPECT_WRONG(shaped(),
               (m.mutable_tensor()->set_shape(0, 2),
                m.mutable_tensor()->set_shape(1, 64)),
               "tensors[0].shape", "[2, 32]", "[4, 16]");
  EXPECT_WRONG(shaped(), m.mutable_tensors(1)->set_shape(0, 64),
               "tensors[1].shape", "[128, 4]", "[64, 4]");
  EXPECT_WRONG(shaped(), m.mutable_tensors(2)->add_shape(1), "tensors[2].shape",
               "[1]", "[1, 1]");
}

// These are the refs of a reply with the largest number of groups.
TEST(ReadDequantize, AcceptsRefsOfManyGroups) {
  v1::QuantizeRequest q = Quantize();
  q.mutable_tensor()->set_shape(0, kMaxGroups);
  q.mutable_options()->set_usage(v1::USAGE_BOTH);
  for (size_t i = 0; i < kMaxGroups; ++i)
    q.mutable_options()->mutable_splits()->add_rows(1);
  q.clear_payload();
  const std::string bytes = q.SerializeAsString();
  const std::string_view whole = bytes;
  const auto plan = ParseDescribeRequest(absl::MakeSpan(&whole, 1));
  ASSERT_THAT(plan, IsOk());
  v1::QuantizeReply reply;
  const std::string payload((*plan)->output_bytes(), '\0');
  const std::string head = ReplyHead(**plan, {}, "cpu:0", "id");
  const auto separated = SeparatePayload(
      std::vector<std::string_view>{head, payload}, kMaxReplyHeadBytes);
  ASSERT_THAT(separated, IsOk());
  ASSERT_TRUE(reply.ParseFromString(separated->head));
  v1::DequantizeRequest m = Of(v1::FORMAT_NVFP4, (*plan)->output_bytes());
  *m.mutable_tensor() = q.tensor();
  *m.mutable_options()->mutable_splits() = q.options().splits();
  *m.mutable_tensors() = reply.tensors();
  EXPECT_GT(m.ByteSizeLong() - m.payload().size(), kMaxHeadBytes);
  EXPECT_THAT(Parse(m), IsOk());
}

TEST(ReadDequantize, LayoutOfRefsMustMatchTheForm) {
  const auto swizzled = [] {
    v1::DequantizeRequest m = DequantizeWithRefs();
    m.mutable_options()->mutable_form()->set_scale_layout(v1::LAYOUT_SWIZZLED);
    m.mutable_tensors(0)->set_layout(v1::LAYOUT_LINEAR);
    m.mutable_tensors(1)->set_layout(v1::LAYOUT_SWIZZLED);
    return m;
  };
  EXPECT_THAT(Parse(swizzled()), IsOk());
  EXPECT_WRONG(swizzled(), m.mutable_tensors(1)->set_layout(v1::LAYOUT_LINEAR),
               "tensors[1].layout", "swizzled", "linear");
  EXPECT_WRONG(swizzled(), o.clear_form(), "tensors[1].layout", "linear",
               "swizzled");
  EXPECT_WRONG(swizzled(),
               m.mutable_tensors(0)->set_layout(v1::LAYOUT_SWIZZLED),
               "tensors[0].layout", "linear", "swizzled");
}

}  // namespace
}  // namespace quantd::wire
