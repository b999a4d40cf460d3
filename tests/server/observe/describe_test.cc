// Tests of calls without a tensor: DescribeQuantize and GetServerInfo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::ElementsAreArray;
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
  for (const FormatSpec& f : kFormats) {
    EXPECT_THAT(formats[std::string(f.name)].options(),
                ElementsAreArray(OptionsOf(f)));
  }
  EXPECT_THAT(formats["fp8_e4m3"].rht_dimensions(), IsEmpty());
  EXPECT_THAT(formats["nvfp4_2d"].rht_dimensions(), IsEmpty());
}

}  // namespace
}  // namespace quantd
