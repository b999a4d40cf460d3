// Legal requests, and macros that make them invalid.
#ifndef QUANTD_TESTS_PROTO_REQUESTS_H_
#define QUANTD_TESTS_PROTO_REQUESTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd/field_error.h"
#include "tests/testing/matchers.h"

namespace quantd::wire {

inline std::string Bytes(size_t n) {
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
inline absl::StatusOr<Request> Parse(const v1::QuantizeRequest& m) {
  return Parse(Method::kQuantize, m);
}
inline absl::StatusOr<Request> Parse(const v1::DequantizeRequest& m) {
  return Parse(Method::kDequantize, m);
}
inline absl::StatusOr<Request> Parse(const v1::RhtAmaxRequest& m) {
  return Parse(Method::kRhtAmax, m);
}
inline absl::StatusOr<Request> Parse(const v1::ApplyRhtRequest& m) {
  return Parse(Method::kApplyRht, m);
}

inline void SetTensor(v1::Tensor* tensor) {
  tensor->set_dtype(v1::DTYPE_BF16);
  tensor->add_shape(4);
  tensor->add_shape(32);
}

inline v1::QuantizeRequest Quantize() {
  v1::QuantizeRequest m;
  SetTensor(m.mutable_tensor());
  m.mutable_options()->set_format(v1::FORMAT_NVFP4);
  m.set_payload(Bytes(256));
  return m;
}

// The bytes of rowwise data of 4 x 32: 64 of codes, 128 x 4 of scales, 4 of
// amax.
inline constexpr size_t kCopyBytes = 64 + 512 + 4;

inline v1::DequantizeRequest Dequantize() {
  v1::DequantizeRequest m;
  SetTensor(m.mutable_tensor());
  m.mutable_options()->set_format(v1::FORMAT_NVFP4);
  m.mutable_options()->set_output(v1::DTYPE_F32);
  m.set_payload(Bytes(kCopyBytes));
  return m;
}

inline void AddRef(v1::TensorKind kind, uint64_t offset, uint64_t size,
                   v1::DequantizeRequest* m) {
  v1::TensorRef* ref = m->add_tensors();
  ref->set_kind(kind);
  ref->set_offset(offset);
  ref->set_size(size);
}

inline v1::DequantizeRequest DequantizeWithRefs() {
  v1::DequantizeRequest m = Dequantize();
  AddRef(v1::TENSOR_KIND_ROWWISE_DATA, 0, 64, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_SCALE, 64, 512, &m);
  AddRef(v1::TENSOR_KIND_ROWWISE_AMAX, 576, 4, &m);
  return m;
}

inline v1::RhtAmaxRequest RhtAmax() {
  v1::RhtAmaxRequest m;
  SetTensor(m.mutable_tensor());
  m.mutable_options()->set_rowwise_rht(true);
  m.set_payload(Bytes(256));
  return m;
}

inline v1::ApplyRhtRequest ApplyRht() {
  v1::ApplyRhtRequest m;
  SetTensor(m.mutable_tensor());
  m.set_payload(Bytes(256));
  return m;
}

// Returns the error for a legal `message` after `change` was applied to it.
template <typename Message>
absl::Status After(Message message,
                   const std::function<void(Message&)>& change) {
  change(message);
  return Parse(message).status();
}

inline void ExpectField(const absl::Status& status, std::string_view field,
                        std::string_view expected, std::string_view got) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_FALSE(IsMalformed(status));
  const auto violation = GetFieldViolation(status);
  ASSERT_TRUE(violation.has_value()) << status;
  EXPECT_EQ(violation->field, field);
  EXPECT_EQ(violation->expected, expected);
  EXPECT_EQ(violation->got, got);
}

// `change` changes the message `m` or its options `o`.
#define EXPECT_WRONG(message, change, field, expected, got)     \
  do {                                                          \
    SCOPED_TRACE(#change);                                      \
    using M = decltype(message);                                \
    const auto made = [](M& m) {                                \
      [[maybe_unused]] auto& o = *m.mutable_options();          \
      change;                                                   \
    };                                                          \
    ExpectField(After<M>(message, made), field, expected, got); \
  } while (false)

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_PROTO_REQUESTS_H_
