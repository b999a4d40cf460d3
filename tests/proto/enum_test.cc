// The enums of quantd.proto and those of kernels/format.h are the same tables.
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "proto/wire.h"

namespace quantd::wire {
namespace {

using google::protobuf::EnumDescriptor;

// Every value of `e` beside the name that kernels/ has for its number, and no
// number more in kernels/.
template <typename T>
void ExpectSame(const EnumDescriptor* e, std::string_view prefix,
                bool zero_is_unspecified = true) {
  SCOPED_TRACE(e->full_name());
  for (int i = 0; i < e->value_count(); ++i) {
    std::string expected(prefix);
    for (char c : Name(static_cast<T>(e->value(i)->number()))) {
      expected += static_cast<char>(std::toupper(c));
    }
    EXPECT_EQ(e->value(i)->name(), expected);
    if (e->value(i)->number() == 0) {
      EXPECT_EQ(Name(T{}) == "unspecified", zero_is_unspecified);
    }
  }
  for (int number = 0; number < 1000; ++number) {
    const bool known = Name(static_cast<T>(number)) != "unspecified";
    if (known) {
      EXPECT_NE(e->FindValueByNumber(number), nullptr) << number;
    }
  }
}

TEST(Enums, AreThoseOfTheKernels) {
  ExpectSame<DType>(v1::DType_descriptor(), "DTYPE_");
  ExpectSame<Format>(v1::Format_descriptor(), "FORMAT_");
  ExpectSame<Usage>(v1::Usage_descriptor(), "USAGE_");
  ExpectSame<NonFinite>(v1::NonFinite_descriptor(), "NON_FINITE_",
                        /*zero_is_unspecified=*/false);
  ExpectSame<Layout>(v1::Layout_descriptor(), "LAYOUT_");
  ExpectSame<TensorKind>(v1::TensorKind_descriptor(), "TENSOR_KIND_");
}

TEST(Enums, BridgesKeepNumbersAndForgetUnknownOnes) {
  for (int i = 1; i <= 7; ++i) {
    EXPECT_EQ(static_cast<int>(ToProto(static_cast<DType>(i))), i);
    EXPECT_EQ(static_cast<int>(FromProto(static_cast<v1::DType>(i))), i);
  }
  for (int i = 1; i <= 11; ++i) {
    EXPECT_EQ(static_cast<int>(ToProto(static_cast<TensorKind>(i))), i);
    EXPECT_EQ(static_cast<int>(FromProto(static_cast<v1::TensorKind>(i))), i);
  }
  EXPECT_EQ(ToProto(Usage::kBoth), v1::USAGE_BOTH);
  EXPECT_EQ(ToProto(Format::kNvfp4), v1::FORMAT_NVFP4);
  EXPECT_EQ(ToProto(Layout::kLinear), v1::LAYOUT_LINEAR);
  EXPECT_EQ(ToProto(NonFinite::kReject), v1::NON_FINITE_REJECT);
  EXPECT_EQ(ToProto(static_cast<DType>(99)), v1::DTYPE_UNSPECIFIED);
  EXPECT_EQ(ToProto(static_cast<Usage>(-1)), v1::USAGE_UNSPECIFIED);
  EXPECT_EQ(FromProto(static_cast<v1::DType>(99)), DType::kUnspecified);
  EXPECT_EQ(FromProto(static_cast<v1::TensorKind>(-5)),
            TensorKind::kUnspecified);
}

TEST(Payload, IsTheLastAndHighestFieldOfEveryTensorMessage) {
  const auto* file = v1::QuantizeRequest::descriptor()->file();
  int seen = 0;
  for (int i = 0; i < file->message_type_count(); ++i) {
    const auto* message = file->message_type(i);
    const auto* payload = message->FindFieldByName("payload");
    if (payload == nullptr) continue;
    ++seen;
    EXPECT_EQ(payload->number(), 101) << message->full_name();
    EXPECT_EQ(payload->index(), message->field_count() - 1);
    for (int k = 0; k < message->field_count(); ++k) {
      EXPECT_LE(message->field(k)->number(), 101);
    }
  }
  EXPECT_EQ(seen, 8);
}

}  // namespace
}  // namespace quantd::wire
