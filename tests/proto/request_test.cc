// ParseRequest and Gather: what a legal request becomes, and every typed error
// with field, expected and got.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "kernels/field_error.h"
#include "proto/wire.h"
#include "tests/proto/raw_message.h"
#include "tests/testing/matchers.h"

namespace quantd::wire {
namespace {

std::string Bytes(size_t n) {
  std::string s(n, '\0');
  for (size_t i = 0; i < n; ++i) s[i] = static_cast<char>(i * 37 + i / 256);
  return s;
}

template <typename Message>
absl::StatusOr<Request> Parse(Method method, const Message& message) {
  const std::string bytes = message.SerializeAsString();
  const std::string_view whole = bytes;
  return ParseRequest(method, absl::MakeSpan(&whole, 1));
}
absl::StatusOr<Request> Parse(const v1::QuantizeRequest& m) {
  return Parse(Method::kQuantize, m);
}
absl::StatusOr<Request> Parse(const v1::DequantizeRequest& m) {
  return Parse(Method::kDequantize, m);
}
absl::StatusOr<Request> Parse(const v1::RhtAmaxRequest& m) {
  return Parse(Method::kRhtAmax, m);
}
absl::StatusOr<Request> Parse(const v1::ApplyRhtRequest& m) {
  return Parse(Method::kApplyRht, m);
}

void SetTensor(v1::Tensor* tensor) {
  tensor->set_dtype(v1::DTYPE_BF16);
  tensor->add_shape(4);
  tensor->add_shape(32);
}

v1::QuantizeRequest Quantize() {
  v1::QuantizeRequest m;
  SetTensor(m.mutable_tensor());
  m.set_format(v1::FORMAT_NVFP4);
  m.set_payload(Bytes(256));
  return m;
}

// Rowwise, 4 x 32: 64 bytes of codes, 128 x 4 scales, 4 bytes of amax.
constexpr size_t kCopyBytes = 64 + 512 + 4;

v1::DequantizeRequest Dequantize() {
  v1::DequantizeRequest m;
  SetTensor(m.mutable_tensor());
  m.set_format(v1::FORMAT_NVFP4);
  m.set_output(v1::DTYPE_F32);
  m.set_payload(Bytes(kCopyBytes));
  return m;
}

void AddRef(v1::TensorKind kind, uint64_t offset, uint64_t size,
            v1::DequantizeRequest* m) {
  v1::TensorRef* ref = m->add_tensors();
  ref->set_kind(kind);
  ref->set_offset(offset);
  ref->set_size(size);
}

v1::DequantizeRequest DequantizeWithRefs() {
  v1::DequantizeRequest m = Dequantize();
  AddRef(v1::TENSOR_KIND_ROWWISE_DATA, 0, 64, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_SCALE, 64, 512, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_AMAX, 576, 4, &m);
  return m;
}

v1::RhtAmaxRequest RhtAmax() {
  v1::RhtAmaxRequest m;
  SetTensor(m.mutable_tensor());
  m.set_rowwise_rht(true);
  m.set_payload(Bytes(256));
  return m;
}

v1::ApplyRhtRequest ApplyRht() {
  v1::ApplyRhtRequest m;
  SetTensor(m.mutable_tensor());
  m.set_payload(Bytes(256));
  return m;
}

// The status after `change` was made to a legal `message`.
template <typename Message>
absl::Status After(Message message,
                   const std::function<void(Message&)>& change) {
  change(message);
  return Parse(message).status();
}

void ExpectField(const absl::Status& status, std::string_view field,
                 std::string_view expected, std::string_view got) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_FALSE(IsMalformed(status));
  const auto violation = GetFieldViolation(status);
  ASSERT_TRUE(violation.has_value()) << status;
  EXPECT_EQ(violation->field, field);
  EXPECT_EQ(violation->expected, expected);
  EXPECT_EQ(violation->got, got);
}

#define EXPECT_WRONG(message, change, field, expected, got)               \
  do {                                                                    \
    SCOPED_TRACE(#change);                                                \
    using M = decltype(message);                                          \
    ExpectField(After<M>(message, [](M& m) { change; }), field, expected, \
                got);                                                     \
  } while (false)

TEST(ParseRequest, NamesWhatIsWrongWithATensor) {
  EXPECT_WRONG(Quantize(), m.clear_tensor(), "tensor.dtype", "f32, f16 or bf16",
               "none");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_dtype(v1::DTYPE_E4M3),
               "tensor.dtype", "f32, f16 or bf16", "e4m3");
  EXPECT_WRONG(Quantize(),
               m.mutable_tensor()->set_dtype(static_cast<v1::DType>(77)),
               "tensor.dtype", "f32, f16 or bf16", "number 77");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->clear_shape(), "tensor.shape",
               "1 to 8 dimensions", "0 dimensions");
  EXPECT_WRONG(Quantize(),
               for (int i = 0; i < 7; ++i) m.mutable_tensor()->add_shape(1),
               "tensor.shape", "1 to 8 dimensions", "9 dimensions");
  // Well inside the head's cap; protobuf holds them, we do not.
  EXPECT_WRONG(Quantize(),
               for (int i = 2; i < 60000; ++i) m.mutable_tensor()->add_shape(1),
               "tensor.shape", "1 to 8 dimensions", "60000 dimensions");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_shape(0, -4), "tensor.shape",
               "dimensions >= 0", "[-4, 32]");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_shape(0, int64_t{1} << 62),
               "tensor.shape", "at most 281474976710656 elements",
               "[4611686018427387904, 32]");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_flatten_axis(2),
               "tensor.flatten_axis", "1 to 1 (or -1 to -1)", "2");
  EXPECT_WRONG(Quantize(), m.mutable_tensor()->set_flatten_axis(INT32_MIN),
               "tensor.flatten_axis", "1 to 1 (or -1 to -1)", "-2147483648");
}

TEST(ParseRequest, NamesWhatIsWrongWithAnOption) {
  EXPECT_WRONG(Quantize(), m.clear_format(), "format", "nvfp4", "none");
  EXPECT_WRONG(Quantize(), m.set_format(static_cast<v1::Format>(9)), "format",
               "nvfp4", "number 9");
  EXPECT_WRONG(Quantize(), m.set_usage(static_cast<v1::Usage>(-3)), "usage",
               "rowwise, columnwise or both", "number -3");
  EXPECT_WRONG(Dequantize(), m.set_usage(v1::USAGE_BOTH), "usage",
               "rowwise or columnwise", "both");
  EXPECT_WRONG(RhtAmax(), m.set_non_finite(static_cast<v1::NonFinite>(3)),
               "non_finite", "ignore, propagate or reject", "number 3");
  EXPECT_WRONG(Dequantize(), m.clear_output(), "output", "f32, f16 or bf16",
               "none");
  EXPECT_WRONG(ApplyRht(), m.set_output(static_cast<v1::DType>(1000)), "output",
               "f32, f16 or bf16", "number 1000");
  EXPECT_WRONG(RhtAmax(), m.clear_rowwise_rht(),
               "rowwise, rowwise_rht, columnwise, columnwise_rht",
               "at least one of them", "none");
  EXPECT_WRONG(Quantize(), m.mutable_given_amax()->set_rowwise(-1),
               "given_amax.rowwise", "a finite number >= 0", "-1");
  EXPECT_WRONG(Quantize(),
               m.mutable_given_amax()->set_columnwise(
                   std::numeric_limits<float>::infinity()),
               "given_amax.columnwise", "a finite number >= 0", "inf");
  EXPECT_WRONG(Dequantize(), m.set_amax(-2), "amax", "a finite number >= 0",
               "-2");
  EXPECT_WRONG(Dequantize(),
               m.set_amax(std::numeric_limits<float>::quiet_NaN()), "amax",
               "a finite number >= 0", "nan");
}

TEST(ParseRequest, NamesWhatIsWrongWithARotation) {
  EXPECT_WRONG(Quantize(), m.mutable_rht()->set_dimension(32), "rht.dimension",
               "16 (the only one so far)", "32");
  EXPECT_WRONG(Quantize(), m.mutable_rht()->set_dimension(UINT32_MAX),
               "rht.dimension", "16 (the only one so far)", "4294967295");
  EXPECT_WRONG(ApplyRht(), m.mutable_rht()->set_dimension(17), "rht.dimension",
               "16 (the only one so far)", "17");
  EXPECT_WRONG(RhtAmax(), m.mutable_rht()->set_sign_mask("abc"),
               "rht.sign_mask", "2 bytes (dimension 16)", "3 bytes");
  EXPECT_WRONG(Quantize(), m.mutable_rht()->set_sign_mask(""), "rht.sign_mask",
               "2 bytes (dimension 16)", "0 bytes");
  EXPECT_WRONG(Dequantize(), m.mutable_inverse_rht()->set_sign_mask("a"),
               "inverse_rht.sign_mask", "2 bytes (dimension 16)", "1 bytes");
  EXPECT_WRONG(Dequantize(), m.mutable_inverse_rht()->set_dimension(64),
               "inverse_rht.dimension", "16 (the only one so far)", "64");
  EXPECT_WRONG(Dequantize(), m.mutable_inverse_rht()->set_dimension(640),
               "inverse_rht.dimension", "16 (the only one so far)", "640");
}

TEST(ParseRequest, NamesWhatIsWrongWithAPayload) {
  EXPECT_WRONG(Quantize(), m.set_payload(Bytes(255)), "payload", "256 bytes",
               "255 bytes");
  EXPECT_WRONG(RhtAmax(), m.clear_payload(), "payload", "256 bytes", "0 bytes");
  EXPECT_WRONG(ApplyRht(), m.set_payload(Bytes(257)), "payload", "256 bytes",
               "257 bytes");
  EXPECT_WRONG(Dequantize(), m.set_payload(Bytes(576)), "payload", "580 bytes",
               "576 bytes");
  EXPECT_WRONG(Dequantize(), (m.set_amax(1), m.set_payload(Bytes(577))),
               "payload", "576 or 580 bytes", "577 bytes");
  // A reply that no message could carry.
  EXPECT_WRONG(Dequantize(), m.mutable_tensor()->set_shape(0, 1 << 25),
               "tensor.shape", "a reply of at most 2147418112 bytes",
               "4294967296 bytes");
}

TEST(ParseRequest, NamesWhatIsWrongWithARef) {
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
               m.mutable_tensors(2)->set_layout(static_cast<v1::Layout>(2)),
               "tensors[2].layout", "linear", "number 2");
  // Checked although the amax field replaces it.
  EXPECT_WRONG(make(), (m.set_amax(1), m.mutable_tensors(2)->set_size(8)),
               "tensors[2].size", "4 bytes of rowwise_amax", "8 bytes");
}

TEST(ParseRequest, FillsInDefaults) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_rht()->set_rowwise(true);
  const auto request = Parse(m);
  ASSERT_THAT(request, IsOk());
  const auto& options = std::get<QuantizeOptions>(request->plan->options());
  EXPECT_EQ(options.usage, Usage::kRowwise);
  EXPECT_EQ(options.rht.dimension, 16);
  EXPECT_EQ(options.rht.sign_mask, kDefaultSignMask);
  EXPECT_EQ(options.non_finite, NonFinite::kIgnore);
  EXPECT_FALSE(options.rowwise_amax.has_value());
  EXPECT_EQ(request->plan->tensor().flatten_axis, 1);

  const auto dequantize = Parse(Dequantize());
  ASSERT_THAT(dequantize, IsOk());
  const auto& dequantized =
      std::get<DequantizeOptions>(dequantize->plan->options());
  EXPECT_EQ(dequantized.usage, Usage::kRowwise);
  EXPECT_FALSE(dequantized.inverse_rht);
}

TEST(ParseRequest, CarriesEveryOption) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_tensor()->clear_shape();
  for (int64_t d : {2, 2, 2, 16}) m.mutable_tensor()->add_shape(d);
  m.mutable_tensor()->set_flatten_axis(-2);
  m.set_usage(v1::USAGE_BOTH);
  m.set_non_finite(v1::NON_FINITE_REJECT);
  m.mutable_rht()->set_columnwise(true);
  m.mutable_rht()->set_dimension(16);
  m.mutable_rht()->set_sign_mask("\x01\x80");
  m.mutable_given_amax()->set_rowwise(0);
  m.mutable_given_amax()->set_columnwise(3.5f);
  const auto request = Parse(m);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->plan->rows(), 4);
  EXPECT_EQ(request->plan->cols(), 32);
  const auto& options = std::get<QuantizeOptions>(request->plan->options());
  EXPECT_EQ(options.usage, Usage::kBoth);
  EXPECT_EQ(options.non_finite, NonFinite::kReject);
  EXPECT_FALSE(options.rht.rowwise);
  EXPECT_TRUE(options.rht.columnwise);
  EXPECT_EQ(options.rht.sign_mask, (SignMask{{0x8001, 0}}));
  EXPECT_EQ(options.rowwise_amax, 0);
  EXPECT_EQ(options.columnwise_amax, 3.5f);

  v1::ApplyRhtRequest apply = ApplyRht();
  apply.set_inverse(true);
  apply.set_output(v1::DTYPE_F16);
  const auto applied = Parse(apply);
  ASSERT_THAT(applied, IsOk());
  EXPECT_TRUE(std::get<ApplyRhtOptions>(applied->plan->options()).inverse);
  EXPECT_EQ(applied->plan->outputs()[0].dtype, DType::kF16);

  v1::RhtAmaxRequest maxima = RhtAmax();
  maxima.set_columnwise(true);
  const auto amax = Parse(maxima);
  ASSERT_THAT(amax, IsOk());
  EXPECT_EQ(amax->plan->outputs().size(), 2u);
}

TEST(ParseRequest, TellsMalformedFromIllegal) {
  const std::string cases[] = {"\x0a\x05", "\x0a\x01\xff", "\x07", "\xff"};
  for (const std::string& bytes : cases) {
    for (Method method : kMethods) {
      const std::string_view whole = bytes;
      const absl::Status status =
          ParseRequest(method, absl::MakeSpan(&whole, 1)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(IsMalformed(status)) << status;
      EXPECT_FALSE(GetFieldViolation(status).has_value());
    }
  }
}

TEST(ParseRequest, NoTruncationOfALegalRequestIsLegal) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_given_amax()->set_rowwise(1);
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
