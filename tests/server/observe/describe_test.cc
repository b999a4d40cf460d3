// Tests of calls without a tensor: DescribeQuantize and GetServerInfo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "kernels/plan/support.h"
#include "quantd.grpc.pb.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using v1::ErrorDetail;

class DescribeTest : public ServerTest {
 protected:
  RpcResult Describe(const std::string& request) {
    RpcOptions options;
    options.method = "DescribeQuantize";
    return Call(channel_, request, options);
  }
  // Returns the reply to a legal request.
  v1::DescribeQuantizeReply Description(const v1::QuantizeRequest& request) {
    const RpcResult result = Describe(request.SerializeAsString());
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    v1::DescribeQuantizeReply reply;
    EXPECT_TRUE(reply.ParseFromString(result.reply));
    EXPECT_NE(result.request_id, "");
    EXPECT_EQ(reply.request_id(), result.request_id);
    return reply;
  }
};

v1::QuantizeRequest Of(v1::Format format, std::vector<int64_t> shape) {
  v1::QuantizeRequest m;
  m.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  for (int64_t d : shape) m.mutable_tensor()->add_shape(d);
  m.mutable_options()->set_format(format);
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  return m;
}

TEST_F(DescribeTest, MatchesTheReplyOfQuantize) {
  StartReal({"cpu"});
  for (const int64_t rows : {0, 1, 33, 300}) {
    for (const v1::Usage usage :
         {v1::USAGE_ROWWISE, v1::USAGE_COLUMNWISE, v1::USAGE_BOTH}) {
      v1::QuantizeRequest request = QuantizeOnes(rows);
      request.mutable_options()->set_usage(usage);
      if (rows % 2 && usage != v1::USAGE_ROWWISE) {
        request.mutable_options()->mutable_rht()->set_columnwise(true);
      }
      const RpcResult result = Call(channel_, request.SerializeAsString());
      ASSERT_TRUE(result.status.ok()) << result.status.error_message();
      v1::QuantizeReply reply;
      ASSERT_TRUE(reply.ParseFromString(result.reply));
      const size_t sent = request.payload().size();
      request.clear_payload();
      const v1::DescribeQuantizeReply described = Description(request);
      ASSERT_EQ(described.tensors_size(), reply.tensors_size());
      for (int i = 0; i < reply.tensors_size(); ++i) {
        EXPECT_EQ(described.tensors(i).SerializeAsString(),
                  reply.tensors(i).SerializeAsString());
      }
      EXPECT_EQ(described.input_bytes(), sent);
      EXPECT_EQ(described.output_bytes(), reply.payload().size());
    }
  }
}

TEST_F(DescribeTest, DescribesOtherFormats) {
  StartReal({"cpu"});
  const auto shapes = [&](const v1::QuantizeRequest& request) {
    std::vector<std::vector<int64_t>> all;
    const v1::DescribeQuantizeReply reply = Description(request);
    for (const v1::TensorRef& ref : reply.tensors()) {
      all.emplace_back(ref.shape().begin(), ref.shape().end());
    }
    return all;
  };
  using Shape = std::vector<int64_t>;
  EXPECT_THAT(shapes(Of(v1::FORMAT_FP8_E4M3, {130, 201})),
              ElementsAre(Shape{130, 201}, Shape{1}, Shape{1}, Shape{201, 130},
                          Shape{1}, Shape{1}));
  EXPECT_THAT(shapes(Of(v1::FORMAT_MXFP8_E4M3, {130, 96})),
              ElementsAre(Shape{130, 96}, Shape{256, 4}, Shape{130, 96},
                          Shape{8, 128}));
  EXPECT_THAT(shapes(Of(v1::FORMAT_FP8_BLOCK_E5M2, {130, 201})),
              ElementsAre(Shape{130, 201}, Shape{2, 132}, Shape{201, 130},
                          Shape{2, 204}));
  v1::QuantizeRequest square = Of(v1::FORMAT_NVFP4_2D, {130, 96});
  square.mutable_options()->mutable_form()->set_compact_scales(true);
  square.mutable_options()->set_dbias(true);
  EXPECT_THAT(shapes(square),
              ElementsAre(Shape{130, 48}, Shape{9, 6}, Shape{1}, Shape{96, 72},
                          Shape{6, 9}, Shape{1}, Shape{96}));
  EXPECT_EQ(Description(square).scratch_bytes(), 2u * 96 * 4);
  v1::QuantizeRequest groups = Of(v1::FORMAT_MXFP4, {50, 32});
  for (int64_t n : {17, 0, 33})
    groups.mutable_options()->mutable_splits()->add_rows(n);
  EXPECT_THAT(Description(groups).tensors(2).group_offsets(),
              ElementsAre(0, 512, 512, 1536));
}

TEST_F(DescribeTest, ReturnsTypedErrors) {
  StartReal({"cpu"});
  v1::QuantizeRequest illegal = Of(v1::FORMAT_FP8_E4M3, {4, 32});
  illegal.mutable_options()->mutable_rht()->set_columnwise(true);
  const RpcResult refused = Describe(illegal.SerializeAsString());
  EXPECT_EQ(refused.status.error_code(), grpc::INVALID_ARGUMENT);
  ASSERT_TRUE(refused.detail.has_value());
  EXPECT_EQ(refused.detail->reason(), ErrorDetail::REASON_INVALID_FIELD);
  EXPECT_EQ(refused.detail->field(), "rht");
  EXPECT_EQ(refused.detail->expected(),
            "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4");
  EXPECT_EQ(refused.detail->got(), "rht with fp8_e4m3");
  EXPECT_NE(refused.request_id, "");
  // Quantize gives the same error.
  const RpcResult quantize = Call(channel_, illegal.SerializeAsString());
  ASSERT_TRUE(quantize.detail.has_value());
  EXPECT_EQ(quantize.detail->SerializeAsString(),
            refused.detail->SerializeAsString());
  EXPECT_EQ(quantize.status.error_message(), refused.status.error_message());

  for (const std::string& bytes :
       {std::string("\xff\xff"), std::string("\x0a\x05"),
        std::string("\x0a\x01\xff")}) {
    const RpcResult malformed = Describe(bytes);
    EXPECT_EQ(malformed.status.error_code(), grpc::INVALID_ARGUMENT);
    ASSERT_TRUE(malformed.detail.has_value());
    EXPECT_EQ(malformed.detail->reason(), ErrorDetail::REASON_MALFORMED);
    EXPECT_NE(malformed.request_id, "");
  }
  const RpcResult empty = Describe("");
  ASSERT_TRUE(empty.detail.has_value());
  EXPECT_EQ(empty.detail->field(), "format");
}

TEST_F(DescribeTest, IgnoresAPayloadAndRefusesALargeOne) {
  StartReal({"cpu"});
  v1::QuantizeRequest request = Of(v1::FORMAT_MXFP4, {4, 32});
  const std::string plain = Description(request).tensors(0).DebugString();
  request.set_payload("nonsense");
  EXPECT_EQ(Description(request).tensors(0).DebugString(), plain);
  request.set_payload(std::string(wire::kMaxHeadBytes, 'x'));
  const RpcResult large = Describe(request.SerializeAsString());
  EXPECT_EQ(large.status.error_code(), grpc::INVALID_ARGUMENT);
  ASSERT_TRUE(large.detail.has_value());
  EXPECT_EQ(large.detail->reason(), ErrorDetail::REASON_TOO_LARGE);
  EXPECT_EQ(large.detail->limit(), 256u << 10);
}

TEST_F(DescribeTest, DescribesManyGroups) {
  StartReal({"cpu"});
  v1::QuantizeRequest request = Of(v1::FORMAT_NVFP4, {1 << 14, 16});
  for (int i = 0; i < 1 << 14; ++i)
    request.mutable_options()->mutable_splits()->add_rows(1);
  const v1::DescribeQuantizeReply reply = Description(request);
  ASSERT_EQ(reply.tensors_size(), 6);
  EXPECT_EQ(reply.tensors(1).group_offsets_size(), (1 << 14) + 1);
  EXPECT_EQ(reply.tensors(1).group_offsets(1 << 14), 512u << 14);
}

// DescribeQuantize needs neither a device nor memory for the tensor.
TEST_F(DescribeTest, AnswersWhileTheServerIsFull) {
  StartFake(/*slots=*/1);
  control_.Close();
  RpcCall busy(channel_, RpcOptions());
  ASSERT_TRUE(busy.Send(QuantizeOnes(4).SerializeAsString()));
  ASSERT_TRUE(busy.HalfClose());
  ASSERT_TRUE(control_.AwaitRunning(1));
  const size_t used = server_->gate().used();
  EXPECT_EQ(Description(Of(v1::FORMAT_MXFP4, {1 << 20, 512})).input_bytes(),
            size_t{1} << 31);
  EXPECT_EQ(control_.begun(), 1);
  EXPECT_TRUE(Eventually([&] { return server_->gate().used() == used; }));
  control_.Open();
  EXPECT_TRUE(busy.Receive().has_value());
  EXPECT_TRUE(busy.Finish().status.ok());
}

TEST_F(DescribeTest, ServerInfoListsFormatsAndTheirOptions) {
  StartReal({"cpu"});
  v1::GetServerInfoReply info;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::Quantd::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok());
  ASSERT_EQ(info.formats_size(), std::ssize(kFormats));
  std::map<std::string, v1::FormatSupport> formats;
  for (const v1::FormatSupport& f : info.formats()) formats[f.name()] = f;
  const v1::FormatSupport& nvfp4 = formats["nvfp4"];
  EXPECT_EQ(nvfp4.format(), v1::FORMAT_NVFP4);
  EXPECT_THAT(nvfp4.device_kinds(), ElementsAre("cpu"));
  EXPECT_THAT(nvfp4.inputs(),
              ElementsAre(v1::DTYPE_F32, v1::DTYPE_F16, v1::DTYPE_BF16));
  EXPECT_THAT(nvfp4.usages(),
              ElementsAre(v1::USAGE_ROWWISE, v1::USAGE_COLUMNWISE,
                          v1::USAGE_BOTH, v1::USAGE_NONE));
  EXPECT_THAT(nvfp4.rht_dimensions(), ElementsAre(16, 32, 64, 128));
  EXPECT_THAT(nvfp4.options(),
              ElementsAre("rht", "stochastic", "row_scaled", "four_over_six",
                          "swizzled", "given_amax", "estimation", "grouped",
                          "dbias", "statistics", "profile"));
  EXPECT_THAT(formats["mxfp8_e5m2"].options(),
              ElementsAre("rht", "swizzled", "scale_rule", "grouped", "dbias",
                          "statistics"));
  EXPECT_THAT(formats["fp8_block_2d_e4m3"].options(),
              ElementsAre("epsilon", "power_of_two", "grouped", "dbias",
                          "statistics", "profile"));
  EXPECT_THAT(formats["fp8_e4m3"].rht_dimensions(), IsEmpty());
  EXPECT_THAT(formats["nvfp4_2d"].rht_dimensions(), IsEmpty());
}

TEST_F(DescribeTest, UsesTheServersDefaultEstimate) {
  options_.estimate = 1.5f;
  StartReal({"cpu"});
  v1::QuantizeRequest request = QuantizeOnes(32);
  request.mutable_options()->set_usage(v1::USAGE_BOTH);
  request.mutable_options()->mutable_rht()->set_columnwise(true);
  // Returns the columnwise amax of a Quantize call, whose reply also has the
  // description.
  const auto amax = [&](v1::QuantizeReply* reply) {
    const RpcResult result = Call(channel_, request.SerializeAsString());
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    EXPECT_TRUE(reply->ParseFromString(result.reply));
    EXPECT_FALSE(reply->options().statistics());
    EXPECT_FALSE(reply->report().has_columnwise());
    float value = 0;
    for (const v1::TensorRef& ref : reply->tensors()) {
      if (ref.kind() != v1::TENSOR_KIND_COLUMNWISE_AMAX) continue;
      std::memcpy(&value, reply->payload().data() + ref.offset(), sizeof value);
    }
    return value;
  };
  v1::QuantizeReply reply;
  EXPECT_EQ(amax(&reply), 1.5f);
  EXPECT_EQ(reply.options().amax_estimation_scale(), 1.5f);
  request.mutable_options()->set_amax_estimation_scale(3);
  EXPECT_EQ(amax(&reply), 3);
  EXPECT_EQ(reply.options().amax_estimation_scale(), 3);
  request.mutable_options()->clear_amax_estimation_scale();
  request.mutable_options()->mutable_given_amax()->set_rowwise(100);
  EXPECT_EQ(amax(&reply), 150);
  request.mutable_options()->clear_given_amax();
  // The amax of sixteen ones after the rotation with the default signs.
  request.mutable_options()->set_amax_estimation_scale(0);
  EXPECT_EQ(amax(&reply), 2);
  // A call that is legal only with the default estimate.
  request.mutable_options()->clear_amax_estimation_scale();
  request.mutable_options()->set_usage(v1::USAGE_COLUMNWISE);
  request.mutable_options()->mutable_given_amax()->set_rowwise(1);
  request.clear_payload();
  Description(request);
  v1::GetServerInfoReply info;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::Quantd::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.limits().amax_estimation_scale(), 1.5f);
}

}  // namespace
}  // namespace quantd
