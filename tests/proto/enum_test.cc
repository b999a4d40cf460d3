// Tests that the enums of quantd.proto and those of quantd/format.h have the
// same values.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <string>

#include "proto/messages.h"

namespace quantd::wire {
namespace {

using google::protobuf::EnumDescriptor;

// Compares every value of `e` with the name of the same number in T, which must
// have no further numbers.
template <typename T>
void ExpectSame(const EnumDescriptor* e, std::string_view prefix,
                bool zero_is_unspecified = true) {
  SCOPED_TRACE(e->full_name());
  for (int i = 0; i < e->value_count(); ++i) {
    std::string expected(prefix);
    for (char c : Name(static_cast<T>(e->value(i)->number()))) {
      // Versions contain characters that identifiers cannot have.
      const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
      expected += word ? static_cast<char>(std::toupper(c)) : '_';
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

TEST(Enums, EqualThoseOfTheKernels) {
  ExpectSame<DType>(v1::DType_descriptor(), "DTYPE_");
  ExpectSame<Format>(v1::Format_descriptor(), "FORMAT_");
  ExpectSame<Usage>(v1::Usage_descriptor(), "USAGE_");
  ExpectSame<Layout>(v1::Layout_descriptor(), "LAYOUT_");
  ExpectSame<TensorKind>(v1::TensorKind_descriptor(), "TENSOR_KIND_");
  const bool zero = false;  // 0 is an ordinary value of this enum
  ExpectSame<NonFinite>(v1::NonFinite_descriptor(), "NON_FINITE_", zero);
  ExpectSame<Rounding>(v1::Rounding_descriptor(), "ROUNDING_", zero);
  ExpectSame<ScaleRule>(v1::ScaleRule_descriptor(), "SCALE_RULE_", zero);
  ExpectSame<FourOverSix>(v1::FourOverSix_descriptor(), "FOUR_OVER_SIX_", zero);
  ExpectSame<AmaxDomain>(v1::AmaxDomain_descriptor(), "AMAX_DOMAIN_", zero);
  ExpectSame<Profile>(v1::Profile_descriptor(), "PROFILE_", zero);
  ExpectSame<HistoryRule>(v1::HistoryRule_descriptor(), "HISTORY_RULE_", zero);
  // Fails if the list above lacks an enum.
  EXPECT_EQ(v1::QuantizeRequest::descriptor()->file()->enum_type_count(), 12);
}

// Expects that ToProto keeps every number of `e`, and turns others into 0.
template <typename T>
void ExpectBridge(const EnumDescriptor* e) {
  SCOPED_TRACE(e->full_name());
  for (int i = 0; i < e->value_count(); ++i) {
    const int number = e->value(i)->number();
    EXPECT_EQ(static_cast<int>(ToProto(static_cast<T>(number))), number);
  }
  for (const int unknown : {-1, 99, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(static_cast<int>(ToProto(static_cast<T>(unknown))), 0);
  }
}

// Expects the same of FromProto.
template <typename Proto>
void ExpectBridgeBack(const EnumDescriptor* e) {
  SCOPED_TRACE(e->full_name());
  for (int i = 0; i < e->value_count(); ++i) {
    const int number = e->value(i)->number();
    EXPECT_EQ(static_cast<int>(FromProto(static_cast<Proto>(number))), number);
  }
  for (const int unknown : {-1, 99, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(static_cast<int>(FromProto(static_cast<Proto>(unknown))), 0);
  }
}

TEST(Enums, ConversionsKeepKnownNumbersAndZeroOthers) {
  ExpectBridge<DType>(v1::DType_descriptor());
  ExpectBridge<Format>(v1::Format_descriptor());
  ExpectBridge<Usage>(v1::Usage_descriptor());
  ExpectBridge<Layout>(v1::Layout_descriptor());
  ExpectBridge<TensorKind>(v1::TensorKind_descriptor());
  ExpectBridge<NonFinite>(v1::NonFinite_descriptor());
  ExpectBridge<Rounding>(v1::Rounding_descriptor());
  ExpectBridge<ScaleRule>(v1::ScaleRule_descriptor());
  ExpectBridge<FourOverSix>(v1::FourOverSix_descriptor());
  ExpectBridge<AmaxDomain>(v1::AmaxDomain_descriptor());
  ExpectBridge<HistoryRule>(v1::HistoryRule_descriptor());
  ExpectBridgeBack<v1::DType>(v1::DType_descriptor());
  ExpectBridgeBack<v1::Format>(v1::Format_descriptor());
  ExpectBridgeBack<v1::Layout>(v1::Layout_descriptor());
  ExpectBridgeBack<v1::TensorKind>(v1::TensorKind_descriptor());
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
