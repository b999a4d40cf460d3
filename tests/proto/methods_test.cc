// Tests that the tables of proto/methods.h and proto/messages.h match the
// service.
#include "proto/methods.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/messages.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

TEST(Methods, EveryMethodHasARow) {
  const auto* service =
      v1::QuantizeRequest::descriptor()->file()->FindServiceByName("Quantd");
  ASSERT_NE(service, nullptr);
  ASSERT_EQ(service->method_count(), static_cast<int>(std::size(kMethods)));
  for (const MethodSpec& row : kMethods) {
    SCOPED_TRACE(row.path);
    const auto* method =
        service->FindMethodByName(std::string(Name(row.method)));
    ASSERT_NE(method, nullptr);
    EXPECT_EQ(row.path,
              "/" + std::string(service->full_name()) + "/" + method->name());
    EXPECT_EQ(FindMethod(row.path), &row);
    EXPECT_EQ(row.tensor,
              method->output_type()->FindFieldByName("payload") != nullptr);
    EXPECT_EQ(row.tensor, row.max_request == 0);
  }
  EXPECT_EQ(FindMethod("/quantd.v1.Quantd/"), nullptr);
  EXPECT_EQ(FindMethod("Quantize"), nullptr);
  EXPECT_EQ(FindMethod(""), nullptr);
}

TEST(Methods, TensorMethodsHaveTheirMessages) {
  const auto* service =
      v1::QuantizeRequest::descriptor()->file()->FindServiceByName("Quantd");
  for (const MethodSpec& row : kTensorMethods) {
    SCOPED_TRACE(row.path);
    const auto* method =
        service->FindMethodByName(std::string(Name(row.method)));
    WithOptionsOf(row.method, [&](auto type) {
      using Rpc = TensorRpc<typename decltype(type)::type>;
      EXPECT_EQ(Rpc::kMethod, row.method);
      EXPECT_EQ(Rpc::Request::descriptor(), method->input_type());
      EXPECT_EQ(Rpc::Reply::descriptor(), method->output_type());
      // The reply echoes the options in a message of the same type.
      const auto* asked = method->input_type()->FindFieldByName("options");
      const auto* echoed = method->output_type()->FindFieldByName("options");
      ASSERT_TRUE(asked != nullptr && echoed != nullptr);
      EXPECT_EQ(asked->message_type(), echoed->message_type());
    });
  }
}

TEST(Methods, OtherMethodsHaveNoTensorRequest) {
  EXPECT_EQ(ParseRequest(Method::kGetServerInfo, {}).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(ParseReply(Method::kDescribeQuantize, {}).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace quantd::wire
