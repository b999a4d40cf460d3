// Tests that every broken rule gives a typed error, and that the next client is
// served.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

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
  const auto shape = [](v1::QuantizeRequest* r, std::vector<int64_t> dims) {
    r->mutable_tensor()->clear_shape();
    for (const int64_t d : dims) r->mutable_tensor()->add_shape(d);
  };
  const float inf = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {"format", [](auto*, auto* o) { o->clear_format(); }},
      {"format", [](auto*, auto* o) { o->set_format(v1::Format(77)); }},
      {"tensor.dtype",
       [](auto* r, auto*) { r->mutable_tensor()->clear_dtype(); }},
      {"tensor.dtype",
       [](auto* r, auto*) { r->mutable_tensor()->set_dtype(v1::DTYPE_E4M3); }},
      {"tensor.dtype",
       [](auto* r, auto*) { r->mutable_tensor()->set_dtype(v1::DType(99)); }},
      {"tensor.shape", [&](auto* r, auto*) { shape(r, {}); }},
      {"tensor.shape",
       [&](auto* r, auto*) {
         shape(r, {4, 17});
       }},
      {"tensor.shape",
       [&](auto* r, auto*) {
         shape(r, {-4, 1024});
       }},
      {"tensor.shape",
       [&](auto* r, auto*) {
         shape(r, {1, 1, 1, 1, 1, 1, 1, 1, 16});
       }},
      {"tensor.shape",
       [&](auto* r, auto*) {
         shape(r, {int64_t{1} << 32, int64_t{1} << 31});
       }},
      {"tensor.shape",
       [&](auto* r, auto*) {
         shape(r, {INT64_MAX, INT64_MAX});
       }},
      {"tensor.flatten_axis",
       [](auto* r, auto*) { r->mutable_tensor()->set_flatten_axis(7); }},
      {"payload", [](auto* r, auto*) { r->mutable_payload()->pop_back(); }},
      {"payload", [](auto* r, auto*) { r->mutable_payload()->push_back('x'); }},
      {"payload", [](auto* r, auto*) { r->clear_payload(); }},
      {"usage", [](auto*, auto* o) { o->set_usage(v1::Usage(9)); }},
      {"non_finite",
       [](auto*, auto* o) { o->set_non_finite(v1::NonFinite(9)); }},
      {"rht.dimension",
       [](auto*, auto* o) {
         o->mutable_rht()->set_rowwise(true);
         o->mutable_rht()->set_dimension(48);
       }},
      {"rht.sign_mask",
       [](auto*, auto* o) { o->mutable_rht()->set_sign_mask(""); }},
      {"rht.sign_mask",
       [](auto*, auto* o) { o->mutable_rht()->set_sign_mask("abc"); }},
      {"rht.sign_mask",
       [](auto*, auto* o) {
         o->mutable_rht()->set_dimension(32);
         o->mutable_rht()->set_sign_mask("ab");
       }},
      {"rht",
       [](auto*, auto* o) {
         o->set_format(v1::FORMAT_FP8_BLOCK_E4M3);
         o->mutable_rht()->set_rowwise(true);
       }},
      {"rounding",
       [](auto*, auto* o) {
         o->set_format(v1::FORMAT_MXFP8_E4M3);
         o->set_rounding(v1::ROUNDING_STOCHASTIC);
       }},
      {"four_over_six",
       [](auto*, auto* o) {
         o->set_four_over_six(v1::FOUR_OVER_SIX_MAE);
         o->set_rounding(v1::ROUNDING_STOCHASTIC);
       }},
      {"form.row_scaled",
       [](auto*, auto* o) {
         o->mutable_form()->set_row_scaled(true);
         o->set_format(v1::FORMAT_NVFP4_2D);
       }},
      {"form.scale_layout",
       [](auto*, auto* o) {
         o->mutable_form()->set_scale_layout(v1::LAYOUT_SWIZZLED);
         o->set_format(v1::FORMAT_FP8_E5M2);
       }},
      {"amax_estimation_scale",
       [](auto*, auto* o) { o->set_amax_estimation_scale(2); }},
      {"splits", [](auto*, auto* o) { o->mutable_splits(); }},
      {"splits",
       [](auto*, auto* o) { o->mutable_splits()->add_rows(INT64_MAX); }},
      {"history",
       [](auto*, auto* o) {
         o->set_format(v1::FORMAT_FP8_E4M3);
         o->mutable_history()->add_amax(1);
       }},
      {"shard.row_offset",
       [](auto*, auto* o) { o->mutable_shard()->set_row_offset(-1); }},
      {"given_amax.rowwise",
       [](auto*, auto* o) {
         o->mutable_given_amax()->set_rowwise(1);
         o->mutable_given_amax()->add_rowwise_values(1);
       }},
      {"given_amax.rowwise",
       [](auto*, auto* o) { o->mutable_given_amax()->set_rowwise(-1); }},
      {"given_amax.rowwise",
       [&](auto*, auto* o) { o->mutable_given_amax()->set_rowwise(inf); }},
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
    SCOPED_TRACE(request.tensor().ShortDebugString());
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
  codes.mutable_options()->set_output(v1::DTYPE_F32);
  codes.mutable_options()->set_usage(v1::USAGE_BOTH);
  ExpectField(Call(channel_, codes.SerializeAsString(), options), "usage");
  codes.mutable_options()->set_usage(v1::USAGE_ROWWISE);
  codes.mutable_options()->set_format(v1::FORMAT_MXFP4);
  codes.set_amax(1);
  ExpectField(Call(channel_, codes.SerializeAsString(), options), "amax");
  codes.mutable_options()->mutable_form()->set_scale_256(true);
  ExpectField(Call(channel_, codes.SerializeAsString(), options),
              "form.scale_256");
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
