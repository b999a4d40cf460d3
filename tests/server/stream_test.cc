// Tests of rpc Stream: the bytes of the unary reply, and errors for broken
// rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "proto/limits.h"
#include "tests/server/server_fixture.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

RpcOptions Stream() {
  RpcOptions options;
  options.method = "Stream";
  return options;
}

// A Quantize request as a stream: its first message and its payload.
struct Streamed {
  explicit Streamed(v1::QuantizeRequest request)
      : payload(std::move(*request.mutable_payload())) {
    request.clear_payload();
    *start.mutable_quantize() = std::move(request);
    start.set_payload_bytes(payload.size());
  }
  v1::StreamRequest start;
  std::string payload;
};

std::string Chunk(const std::string& bytes) {
  v1::StreamRequest message;
  message.set_chunk(bytes);
  return message.SerializeAsString();
}

struct StreamResult {
  RpcResult rpc;
  std::string payload;
  v1::StreamReply last;
  int messages = 0;
};

StreamResult Drain(RpcCall* call) {
  StreamResult result;
  while (auto message = call->Receive()) {
    ++result.messages;
    EXPECT_EQ(result.last.reply_case(), v1::StreamReply::REPLY_NOT_SET);
    EXPECT_TRUE(result.last.ParseFromString(*message));
    result.payload += result.last.chunk();
  }
  result.rpc = call->Finish();
  return result;
}

// Sends `payload` in chunks whose sizes repeat `sizes`.
StreamResult SendCut(const std::shared_ptr<grpc::Channel>& channel,
                     const v1::StreamRequest& start, const std::string& payload,
                     const std::vector<size_t>& sizes) {
  RpcCall call(channel, Stream());
  EXPECT_TRUE(call.Send(start.SerializeAsString()));
  size_t turn = 0;
  for (size_t at = 0; at < payload.size();) {
    const size_t n =
        std::min(payload.size() - at, sizes[turn++ % sizes.size()]);
    if (!call.Send(Chunk(payload.substr(at, n)))) break;
    at += n;
  }
  call.HalfClose();
  return Drain(&call);
}

class StreamTest : public ServerTest {
 protected:
  // Sends these messages, half-closes, and returns the result.
  RpcResult Refusal(const std::vector<std::string>& messages) {
    RpcCall call(channel_, Stream());
    bool open = true;
    for (const std::string& message : messages) {
      open = open && call.Send(message);
    }
    if (open) call.HalfClose();
    StreamResult result = Drain(&call);
    EXPECT_EQ(result.payload, "");
    return result.rpc;
  }
  void ExpectField(const RpcResult& result, const std::string& field) {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_INVALID_FIELD);
    EXPECT_EQ(result.detail->field(), field) << result.status.error_message();
    EXPECT_NE(result.detail->expected(), "");
    EXPECT_FALSE(result.request_id.empty());
  }
};

TEST_F(StreamTest, AnyChunkSizesGiveTheUnaryReply) {
  StartReal({"cpu:0"});
  v1::QuantizeRequest request = QuantizeOnes(700);
  for (size_t i = 0; i < request.payload().size(); i += 7) {
    (*request.mutable_payload())[i] = static_cast<char>(i * 37);
  }
  request.mutable_options()->set_usage(v1::USAGE_BOTH);
  request.mutable_options()->set_statistics(true);
  const RpcResult unary = Call(channel_, request.SerializeAsString());
  v1::QuantizeReply expected;
  ASSERT_TRUE(expected.ParseFromString(unary.reply));
  const Streamed streamed(request);
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{size_t{1} << 20}, {4096}, {1, 9999, 3}, {65537}}) {
    const StreamResult got =
        SendCut(channel_, streamed.start, streamed.payload, sizes);
    ASSERT_TRUE(got.rpc.status.ok()) << got.rpc.status.error_message();
    EXPECT_EQ(got.messages, 2);  // the output is below one chunk
    EXPECT_EQ(got.payload, expected.payload());
    v1::QuantizeReply reply = got.last.quantize();
    EXPECT_EQ(reply.request_id(), got.rpc.request_id);
    reply.set_request_id(expected.request_id());
    *reply.mutable_payload() = expected.payload();
    EXPECT_EQ(reply.SerializeAsString(), expected.SerializeAsString());
  }
}

TEST_F(StreamTest, SendsALargeReplyInChunks) {
  StartReal({"cpu:0"});
  v1::StreamRequest start;
  v1::ApplyRhtRequest* const rotate = start.mutable_apply_rht();
  rotate->mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  rotate->mutable_tensor()->add_shape(1024);
  rotate->mutable_tensor()->add_shape(1024);
  rotate->mutable_options()->set_output(v1::DTYPE_F32);
  const std::string payload(1024 * 2048, '\0');
  start.set_payload_bytes(payload.size());
  const StreamResult got = SendCut(channel_, start, payload, {1 << 20});
  ASSERT_TRUE(got.rpc.status.ok()) << got.rpc.status.error_message();
  EXPECT_EQ(got.payload, std::string(4 << 20, '\0'));
  EXPECT_EQ(got.messages, 5);
}

TEST_F(StreamTest, DequantizeRangesMayLeaveGapsInAnyOrder) {
  StartReal({"cpu:0"});
  const Streamed quantize(QuantizeOnes(32));
  const StreamResult made =
      SendCut(channel_, quantize.start, quantize.payload, {1 << 20});
  ASSERT_TRUE(made.rpc.status.ok());
  // A gap precedes every tensor but the amax, which lies in the first gap.
  v1::StreamRequest start;
  v1::DequantizeRequest* const request = start.mutable_dequantize();
  *request->mutable_tensor() = quantize.start.quantize().tensor();
  request->mutable_options()->set_format(v1::FORMAT_NVFP4);
  request->mutable_options()->set_output(v1::DTYPE_BF16);
  std::string payload(101, '\xee');
  for (const v1::TensorRef& ref : made.last.quantize().tensors()) {
    const std::string bytes = made.payload.substr(ref.offset(), ref.size());
    v1::TensorRef* const place = request->add_tensors();
    *place = ref;
    if (ref.kind() == v1::TENSOR_KIND_ROWWISE_AMAX) {
      place->set_offset(3);
      payload.replace(3, bytes.size(), bytes);
    } else {
      place->set_offset(payload.size());
      payload += bytes + std::string(13, '\xee');
    }
  }
  start.set_payload_bytes(payload.size());
  const StreamResult got = SendCut(channel_, start, payload, {5, 17, 1000});
  ASSERT_TRUE(got.rpc.status.ok()) << got.rpc.status.error_message();
  EXPECT_EQ(got.payload, quantize.payload);
  EXPECT_EQ(got.last.reply_case(), v1::StreamReply::kDequantize);
}

TEST_F(StreamTest, AcceptsManyTinyChunksAndNoChunks) {
  StartReal({"cpu:0"});
  const Streamed ones(QuantizeOnes(16));
  const StreamResult tiny = SendCut(channel_, ones.start, ones.payload, {4});
  EXPECT_TRUE(tiny.rpc.status.ok()) << tiny.rpc.status.error_message();
  const Streamed none(QuantizeOnes(0));
  const StreamResult empty = SendCut(channel_, none.start, "", {4});
  EXPECT_TRUE(empty.rpc.status.ok()) << empty.rpc.status.error_message();
  EXPECT_EQ(empty.last.reply_case(), v1::StreamReply::kQuantize);
}

TEST_F(StreamTest, RefusesInvalidStreams) {
  StartReal({"cpu:0"});
  const Streamed ones(QuantizeOnes(16));
  const std::string start = ones.start.SerializeAsString();
  const size_t size = ones.payload.size();
  // A chunk beyond the declared size ends the stream at once.
  ExpectField(Refusal({start, Chunk(ones.payload), Chunk("x")}), "chunk");
  ExpectField(Refusal({start, Chunk(ones.payload + "x")}), "chunk");
  ExpectField(Refusal({start, Chunk("")}), "chunk");
  ExpectField(Refusal({start, ""}), "chunk");
  ExpectField(Refusal({start, start}), "request");
  // Streams that end too early, or before they begin.
  ExpectField(Refusal({start}), "payload");
  ExpectField(Refusal({start, Chunk(ones.payload.substr(1))}), "payload");
  EXPECT_EQ(Refusal({}).detail->reason(), ErrorDetail::REASON_MALFORMED);
  // Invalid first messages.
  ExpectField(Refusal({""}), "request");
  ExpectField(Refusal({Chunk("x")}), "chunk");
  EXPECT_EQ(Refusal({"\xff"}).detail->reason(), ErrorDetail::REASON_MALFORMED);
  EXPECT_EQ(Refusal({start, "\xff"}).detail->reason(),
            ErrorDetail::REASON_MALFORMED);
  v1::StreamRequest bad = ones.start;
  bad.set_payload_bytes(size + 1);
  ExpectField(Refusal({bad.SerializeAsString()}), "payload_bytes");
  bad.set_payload_bytes(UINT64_MAX);
  ExpectField(Refusal({bad.SerializeAsString()}), "payload_bytes");
  bad = ones.start;
  bad.mutable_quantize()->set_payload("abc");
  ExpectField(Refusal({bad.SerializeAsString()}), "payload");
  bad = ones.start;
  bad.mutable_quantize()->mutable_memory()->add_inputs()->set_size(size);
  ExpectField(Refusal({bad.SerializeAsString()}), "memory");
  bad = ones.start;
  bad.mutable_quantize()->mutable_options()->clear_format();
  ExpectField(Refusal({bad.SerializeAsString()}), "format");
}

TEST_F(StreamTest, RefusesATooLargeStreamBeforeItIsSent) {
  StartReal({"cpu:0"});
  const auto expect = [](const RpcResult& result, const std::string& field) {
    ASSERT_TRUE(result.detail.has_value()) << result.status.error_message();
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_TOO_LARGE);
    EXPECT_EQ(result.detail->field(), field);
    EXPECT_GT(result.detail->limit(), 0u);
  };
  // The request declares a payload of 4 GiB and sends no chunk.
  v1::StreamRequest start = Streamed(QuantizeOnes(0)).start;
  start.mutable_quantize()->mutable_tensor()->set_shape(0, int64_t{2} << 20);
  start.set_payload_bytes(uint64_t{4} << 30);
  RpcCall call(channel_, Stream());
  ASSERT_TRUE(call.Send(start.SerializeAsString()));
  expect(Drain(&call).rpc, "memory for input, output and scratch");
  v1::StreamRequest gaps;
  v1::DequantizeRequest* const request = gaps.mutable_dequantize();
  *request->mutable_tensor() = start.quantize().tensor();
  request->mutable_tensor()->set_shape(0, 0);
  request->mutable_options()->set_format(v1::FORMAT_FP8_E4M3);
  request->mutable_options()->set_output(v1::DTYPE_BF16);
  request->add_tensors()->set_kind(v1::TENSOR_KIND_ROWWISE_DATA);
  request->add_tensors()->set_kind(v1::TENSOR_KIND_ROWWISE_SCALE);
  request->mutable_tensors(1)->set_size(4);
  gaps.set_payload_bytes(uint64_t{1} << 60);
  RpcCall sparse(channel_, Stream());
  ASSERT_TRUE(sparse.Send(gaps.SerializeAsString()));
  expect(Drain(&sparse).rpc, "payload_bytes");
  const Streamed ones(QuantizeOnes(16 << 10));
  expect(Refusal({ones.start.SerializeAsString(),
                  Chunk(std::string(wire::kMaxChunkBytes + 1, 'x'))}),
         "chunk");
}

TEST_F(StreamTest, IsCountedAsACallOfItsMethod) {
  options_.metrics_address = "127.0.0.1:0";
  StartReal({"cpu:0"});
  const Streamed ones(QuantizeOnes(16));
  ASSERT_TRUE(
      SendCut(channel_, ones.start, ones.payload, {1000}).rpc.status.ok());
  EXPECT_EQ(Refusal({}).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  const auto page = [&] { return Get(server_->metrics_address(), "/metrics"); };
  EXPECT_TRUE(Eventually([&] {
    const std::string text = page();
    return text.find("quantd_requests_total{method=\"Quantize\"} 1\n") !=
               std::string::npos &&
           text.find("quantd_requests_total{method=\"Stream\"} 1\n") !=
               std::string::npos;
  })) << page();
}

}  // namespace
}  // namespace quantd
