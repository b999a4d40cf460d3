// Tests of ParseRequest: the result of a legal request, and every typed error
// with field, expected and got.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/proto/raw_message.h"
#include "tests/proto/requests.h"

namespace quantd::wire {
namespace {

TEST(ParseRequest, ReportsErrorsOfATensor) {
  EXPECT_WRONG(Quantize(), m.clear_tensor(), "tensor.dtype", "f32, f16 or bf16",
               "none");
  EXPECT_WRONG(Quantize(),
               m.mutable_tensor()->set_dtype(static_cast<v1::DType>(77)),
               "tensor.dtype", "f32, f16 or bf16", "number 77");
  // These dimensions fit into the head's limit, so that the plan must refuse
  // them.
  EXPECT_WRONG(Quantize(),
               for (int i = 2; i < 60000; ++i) m.mutable_tensor()->add_shape(1),
               "tensor.shape", "1 to 8 dimensions", "60000 dimensions");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_shape(0, int64_t{1} << 62),
               "tensor.shape", "at most 281474976710656 elements",
               "[4611686018427387904, 32]");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_flatten_axis(INT32_MIN),
               "tensor.flatten_axis", "1 to 1 (or -1 to -1)", "-2147483648");
}

constexpr char kFormatNames[] =
    "nvfp4 or nvfp4_2d or fp8_e4m3 or fp8_e5m2 or mxfp8_e4m3 or mxfp8_e5m2 or "
    "mxfp4 or fp8_block_e4m3 or fp8_block_e5m2 or fp8_block_2d_e4m3 or "
    "fp8_block_2d_e5m2 or fp8_channel_e4m3";

TEST(ParseRequest, ReportsErrorsOfAnOption) {
  EXPECT_WRONG(Quantize(), o.set_format(static_cast<v1::Format>(99)), "format",
               kFormatNames, "number 99");
  EXPECT_WRONG(Quantize(), o.set_usage(static_cast<v1::Usage>(-3)), "usage",
               "rowwise, columnwise, both or none", "number -3");
  EXPECT_WRONG(RhtAmax(), o.set_non_finite(static_cast<v1::NonFinite>(3)),
               "non_finite", "ignore, propagate or reject", "number 3");
  EXPECT_WRONG(Quantize(), o.set_non_finite(static_cast<v1::NonFinite>(9)),
               "non_finite", "ignore, propagate or reject", "number 9");
  EXPECT_WRONG(ApplyRht(), o.set_output(static_cast<v1::DType>(1000)), "output",
               "f32, f16 or bf16", "number 1000");
  EXPECT_WRONG(RhtAmax(), o.clear_rowwise_rht(),
               "rowwise, rowwise_rht, columnwise, columnwise_rht",
               "at least one of them", "none");
  EXPECT_WRONG(Dequantize(), m.set_amax(-2), "amax", "a finite number >= 0",
               "-2");
  EXPECT_WRONG(Dequantize(),
               m.set_amax(std::numeric_limits<float>::quiet_NaN()), "amax",
               "a finite number >= 0", "nan");
}

TEST(ParseRequest, ReportsErrorsOfARotation) {
  EXPECT_WRONG(Quantize(), o.mutable_rht()->set_dimension(UINT32_MAX),
               "rht.dimension", "16, 32, 64 or 128", "4294967295");
  EXPECT_WRONG(RhtAmax(), o.mutable_rht()->set_sign_mask("abc"),
               "rht.sign_mask", "2 bytes (dimension 16)", "3 bytes");
  EXPECT_WRONG(Quantize(), o.mutable_rht()->set_sign_mask(""), "rht.sign_mask",
               "2 bytes (dimension 16)", "0 bytes");
  EXPECT_WRONG(Dequantize(), o.mutable_inverse_rht()->set_sign_mask("a"),
               "inverse_rht.sign_mask", "2 bytes (dimension 16)", "1 bytes");
  EXPECT_WRONG(Quantize(),
               (o.mutable_rht()->set_dimension(128),
                o.mutable_rht()->set_sign_mask("\xE8\xD7")),
               "rht.sign_mask", "16 bytes (dimension 128)", "2 bytes");
  EXPECT_WRONG(Dequantize(), o.mutable_inverse_rht()->set_dimension(640),
               "inverse_rht.dimension", "16, 32, 64 or 128", "640");
}

TEST(ParseRequest, ReportsErrorsOfAPayload) {
  EXPECT_WRONG(Quantize(), m.set_payload(Bytes(255)), "payload", "256 bytes",
               "255 bytes");
  EXPECT_WRONG(RhtAmax(), m.clear_payload(), "payload", "256 bytes", "0 bytes");
  EXPECT_WRONG(ApplyRht(), m.set_payload(Bytes(257)), "payload", "256 bytes",
               "257 bytes");
  EXPECT_WRONG(Dequantize(), m.set_payload(Bytes(576)), "payload", "580 bytes",
               "576 bytes");
  EXPECT_WRONG(Dequantize(), (m.set_amax(1), m.set_payload(Bytes(577))),
               "payload", "576 or 580 bytes", "577 bytes");
  // The reply would be too large for a message.
  EXPECT_WRONG(Dequantize(), m.mutable_tensor()->set_shape(0, 1 << 25),
               "tensor.shape", "a reply of at most 2136997888 bytes",
               "4294967296 bytes");
}

TEST(ParseRequest, ReportsErrorsOfARef) {
  const auto make = DequantizeWithRefs;
  EXPECT_WRONG(make(),
               m.mutable_tensors(0)->set_kind(v1::TENSOR_KIND_COLUMNWISE_DATA),
               "tensors", "a rowwise_data", "none");
  EXPECT_WRONG(make(), m.mutable_tensors()->RemoveLast(), "tensors",
               "a rowwise_amax", "none");
  EXPECT_WRONG(make(), AddRef(v1::TENSOR_KIND_ROWWISE_SCALE, 64, 512, &m),
               "tensors", "one rowwise_scale", "number 1 and number 3");
  EXPECT_WRONG(make(), m.mutable_tensors(1)->set_size(511), "tensors[1].size",
               "512 bytes of rowwise_scale", "511 bytes");
  EXPECT_WRONG(make(), m.mutable_tensors(1)->set_offset(69),
               "tensors[1].offset", "512 bytes inside a payload of 580",
               "offset 69");
  EXPECT_WRONG(make(), m.mutable_tensors(0)->set_offset(~uint64_t{0} - 10),
               "tensors[0].offset", "64 bytes inside a payload of 580",
               "offset 18446744073709551605");
  EXPECT_WRONG(make(), m.set_payload("abc"), "tensors[0].offset",
               "64 bytes inside a payload of 3", "offset 0");
  EXPECT_WRONG(make(), m.mutable_tensors(1)->set_dtype(v1::DTYPE_E5M2),
               "tensors[1].dtype", "e4m3", "e5m2");
  EXPECT_WRONG(make(),
               m.mutable_tensors(2)->set_layout(static_cast<v1::Layout>(7)),
               "tensors[2].layout", "linear", "number 7");
  // The ref is checked even though the amax field replaces it.
  EXPECT_WRONG(make(), (m.set_amax(1), m.mutable_tensors(2)->set_size(8)),
               "tensors[2].size", "4 bytes of rowwise_amax", "8 bytes");
}

TEST(ParseRequest, FillsInDefaults) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->mutable_rht()->set_rowwise(true);
  const auto request = Parse(m);
  ASSERT_THAT(request, IsOk());
  const auto& options = std::get<QuantizeOptions>(request->plan->options());
  EXPECT_EQ(options.usage, Usage::kRowwise);
  EXPECT_EQ(options.rht.dimension, 16);
  EXPECT_EQ(options.rht.sign_mask, kDefaultSignMask);
  EXPECT_EQ(options.non_finite, NonFinite::kIgnore);
  EXPECT_TRUE(options.rowwise_amax.empty());
  EXPECT_EQ(request->plan->tensor().flatten_axis, 1);

  const auto dequantize = Parse(Dequantize());
  ASSERT_THAT(dequantize, IsOk());
  const auto& dequantized =
      std::get<DequantizeOptions>(dequantize->plan->options());
  EXPECT_EQ(dequantized.usage, Usage::kRowwise);
  EXPECT_FALSE(dequantized.inverse_rht);
}

TEST(ParseRequest, CarriesTheOptionsOfRotations) {
  v1::ApplyRhtRequest apply = ApplyRht();
  apply.mutable_options()->set_inverse(true);
  apply.mutable_options()->set_output(v1::DTYPE_F16);
  const auto applied = Parse(apply);
  ASSERT_THAT(applied, IsOk());
  EXPECT_TRUE(std::get<ApplyRhtOptions>(applied->plan->options()).inverse);
  EXPECT_EQ(applied->plan->outputs()[0].dtype, DType::kF16);

  v1::RhtAmaxRequest maxima = RhtAmax();
  maxima.mutable_options()->set_columnwise(true);
  maxima.mutable_options()->set_domain(v1::AMAX_DOMAIN_ROW);
  maxima.mutable_options()->mutable_splits()->add_rows(1);
  maxima.mutable_options()->mutable_splits()->add_rows(3);
  const auto amax = Parse(maxima);
  ASSERT_THAT(amax, IsOk());
  ASSERT_EQ(amax->plan->outputs().size(), 2u);
  EXPECT_EQ(amax->plan->outputs()[0].size, 4u * 64);  // 2 groups x 32 columns
  EXPECT_EQ(amax->plan->outputs()[1].size, 4u * 4);
}

TEST(ParseRequest, RefusesTooManyBytesBesideThePayload) {
  const auto limit = [](const v1::QuantizeRequest& m) {
    const auto status = Parse(m).status();
    const std::string bytes = m.SerializeAsString();
    const std::string_view whole = bytes;
    EXPECT_EQ(ParseDescribeRequest(absl::MakeSpan(&whole, 1)).status(), status);
    const auto violation = GetFieldViolation(status);
    EXPECT_TRUE(violation.has_value()) << status;
    EXPECT_EQ(violation ? violation->field : "", "message");
    return GetSizeLimit(status).value_or(0);
  };
  v1::QuantizeRequest fp8 = Quantize();
  fp8.mutable_options()->set_format(v1::FORMAT_FP8_E4M3);
  v1::QuantizeRequest m = fp8;
  m.mutable_options()->mutable_history()->mutable_amax()->Resize((4 << 18) + 1,
                                                                 1);
  EXPECT_EQ(limit(m), 4u << 20);
  // All lists count together.
  m.mutable_options()->mutable_history()->mutable_amax()->Resize(4 << 17, 1);
  m.mutable_options()->mutable_scale()->Resize((4 << 17) + 1, 1);
  EXPECT_EQ(limit(m), 4u << 20);
  // Other fields than lists have a lower limit.
  m = fp8;
  m.mutable_options()->mutable_rht()->set_sign_mask(
      std::string(256 << 10, 'x'));
  EXPECT_EQ(limit(m), 256u << 10);
  // DescribeQuantize needs no payload.
  m = Quantize();
  m.set_payload(std::string(256 << 10, 'x'));
  const std::string bytes = m.SerializeAsString();
  const std::string_view whole = bytes;
  const auto status = ParseDescribeRequest(absl::MakeSpan(&whole, 1)).status();
  EXPECT_EQ(GetSizeLimit(status), 256u << 10);
}

TEST(ParseRequest, DistinguishesMalformedFromInvalid) {
  const std::string cases[] = {"\x0a\x05", "\x0a\x01\xff", "\x07", "\xff"};
  for (const std::string& bytes : cases) {
    for (const MethodSpec& row : kTensorMethods) {
      const std::string_view whole = bytes;
      const absl::Status status =
          ParseRequest(row.method, absl::MakeSpan(&whole, 1)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(IsMalformed(status)) << status;
      EXPECT_FALSE(GetFieldViolation(status).has_value());
    }
  }
}

TEST(ParseRequest, RefusesEveryTruncation) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->mutable_given_amax()->set_rowwise(1);
  const std::string bytes = m.SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const absl::Status status =
        ParseRequest(Method::kQuantize,
                     Cut(std::string_view(bytes).substr(0, n), {n / 3}))
            .status();
    EXPECT_TRUE(IsMalformed(status) || GetFieldViolation(status)) << n;
  }
}

}  // namespace
}  // namespace quantd::wire
