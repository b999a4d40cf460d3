// Tests that malformed messages and wrong sizes give a typed error, and that
// the next client is served. python_stub_test sends requests that are well
// formed but break a rule.
#include <gtest/gtest.h>

#include <string>

#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

class BrokenRuleTest : public ServerTest {
 protected:
  void SetUp() override { StartReal({"cpu:0"}); }
  void TearDown() override {
    EXPECT_TRUE(
        Call(channel_, QuantizeOnes(1).SerializeAsString()).status.ok());
    ServerTest::TearDown();
  }

  void ExpectField(const RpcResult& result, const std::string& field) {
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_INVALID_FIELD);
    EXPECT_EQ(result.detail->field(), field);
    EXPECT_NE(result.detail->expected(), "");
    EXPECT_NE(result.detail->got(), "");
    EXPECT_NE(result.request_id, "");
    EXPECT_EQ(result.pushback, "");
  }
  void ExpectMalformed(const RpcResult& result) {
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_MALFORMED);
  }
};

TEST_F(BrokenRuleTest, RefusesMalformedMessages) {
  const std::string good = QuantizeOnes(1).SerializeAsString();
  // Messages cut inside the head and inside the payload.
  for (const size_t cut : {size_t{1}, size_t{3}, good.size() - 1}) {
    ExpectMalformed(Call(channel_, good.substr(0, cut)));
  }
  ExpectMalformed(Call(channel_, std::string(100, '\xff')));
  ExpectMalformed(Call(channel_, std::string(1 << 20, '\x07')));
  // A call without a message.
  RpcCall call(channel_, RpcOptions());
  ASSERT_TRUE(call.HalfClose());
  ExpectMalformed(call.Finish());
}

TEST_F(BrokenRuleTest, EnforcesTheDeclaredSize) {
  const std::string request = QuantizeOnes(4).SerializeAsString();
  RpcOptions options;
  for (const size_t declared : {request.size(), request.size() + 1000}) {
    options.declared = std::to_string(declared);
    EXPECT_TRUE(Call(channel_, request, options).status.ok());
  }
  for (const char* wrong : {"100", "0"}) {
    options.declared = wrong;
    ExpectField(Call(channel_, request, options), "quantd-request-bytes");
  }
  for (const char* nonsense :
       {"", "many", "-5", "1e3", "12 34", "99999999999999999999999"}) {
    options.declared = nonsense;
    ExpectField(Call(channel_, request, options), "quantd-request-bytes");
  }
}

}  // namespace
}  // namespace quantd
