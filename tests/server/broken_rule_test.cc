// Tests that every broken rule gives a typed error, and that the next client is
// served.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
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

TEST_F(BrokenRuleTest, ErrorNamesTheFieldOfTheRule) {
  struct Case {
    const char* field;
    std::function<void(v1::QuantizeRequest*, v1::QuantizeOptions*)> breaks;
  };
  // A sample of the rules that the message, the plan and the device check. The
  // tests of ParseRequest and of plans cover all of them.
  const Case cases[] = {
      {"format", [](auto*, auto* o) { o->clear_format(); }},
      {"tensor.shape",
       [](auto* r, auto*) { r->mutable_tensor()->set_shape(1, 17); }},
      {"payload", [](auto* r, auto*) { r->mutable_payload()->pop_back(); }},
      {"given_amax.rowwise",
       [](auto*, auto* o) { o->mutable_given_amax()->set_rowwise(NAN); }},
      {"payload",
       [](auto* r, auto* o) {
         o->set_non_finite(v1::NON_FINITE_REJECT);
         (*r->mutable_payload())[1] = '\x7f';
         (*r->mutable_payload())[0] = '\xc0';
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.field);
    v1::QuantizeRequest request = QuantizeOnes(4);
    c.breaks(&request, request.mutable_options());
    ExpectField(Call(channel_, request.SerializeAsString()), c.field);
  }
}

TEST_F(BrokenRuleTest, OtherMethodsCheckTheirFields) {
  RpcOptions options;
  options.method = "RhtAmax";
  v1::RhtAmaxRequest none;
  *none.mutable_tensor() = QuantizeOnes(1).tensor();
  none.set_payload(QuantizeOnes(1).payload());
  EXPECT_EQ(
      Call(channel_, none.SerializeAsString(), options).status.error_code(),
      grpc::INVALID_ARGUMENT);
  options.method = "Dequantize";
  v1::DequantizeRequest codes;
  *codes.mutable_tensor() = QuantizeOnes(1).tensor();
  codes.mutable_options()->set_format(v1::FORMAT_NVFP4);
  ExpectField(Call(channel_, codes.SerializeAsString(), options), "output");
  options.method = "ApplyRht";
  v1::ApplyRhtRequest rotate;
  rotate.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  rotate.mutable_tensor()->add_shape(4);
  rotate.mutable_tensor()->add_shape(20);
  ExpectField(Call(channel_, rotate.SerializeAsString(), options),
              "tensor.shape");
}

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
