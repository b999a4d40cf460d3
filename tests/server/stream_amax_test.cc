// Tests of streams with a reduced amax: the maxima, and the values that a
// client may return.
#include "tests/server/stream_amax.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace quantd {
namespace {

using v1::ErrorDetail;

TEST_F(StreamAmaxTest, GivesTheBytesOfAGivenAmax) {
  StartReal({"cpu:0"});
  v1::Maxima maxima;
  auto call = Await(64, &maxima);
  ASSERT_EQ(maxima.rowwise_size(), 1);
  EXPECT_EQ(maxima.rowwise(0), 3.0f);
  EXPECT_EQ(maxima.columnwise_size(), 0);
  EXPECT_FALSE(maxima.saw_nan() || maxima.saw_inf());
  ASSERT_TRUE(call->Send(Rowwise(7.5f).SerializeAsString()));
  ASSERT_TRUE(call->HalfClose());
  std::string payload;
  v1::StreamReply reply;
  while (auto message = call->Receive()) {
    ASSERT_TRUE(reply.ParseFromString(*message));
    payload += reply.chunk();
  }
  EXPECT_TRUE(call->Finish().status.ok());
  v1::QuantizeRequest request = Request(64);
  request.mutable_options()->mutable_given_amax()->set_rowwise(7.5f);
  v1::QuantizeReply expected;
  ASSERT_TRUE(expected.ParseFromString(
      Call(channel_, request.SerializeAsString()).reply));
  EXPECT_EQ(payload, expected.payload());
  EXPECT_EQ(reply.quantize().options().SerializeAsString(),
            expected.options().SerializeAsString());
}

TEST_F(StreamAmaxTest, SendsMaximaOfEveryCopyAndLine) {
  StartReal({"cpu:0"});
  v1::QuantizeRequest request = Request(32);
  request.mutable_options()->set_usage(v1::USAGE_BOTH);
  request.mutable_options()->mutable_rht()->set_columnwise(true);
  request.mutable_payload()->replace(0, 2, "\xc0\x7f");  // NaN
  auto call = Open(request);
  v1::StreamReply reply;
  ASSERT_TRUE(reply.ParseFromString(*call->Receive()));
  EXPECT_EQ(reply.maxima().rowwise_size(), 1);
  EXPECT_EQ(reply.maxima().columnwise_size(), 1);
  EXPECT_NE(reply.maxima().rowwise(0), reply.maxima().columnwise(0));
  EXPECT_TRUE(reply.maxima().saw_nan());
  call->Cancel();
  EXPECT_EQ(call->Finish().status.error_code(), grpc::CANCELLED);

  request = Request(32);
  request.mutable_options()->mutable_form()->set_row_scaled(true);
  call = Open(request);
  ASSERT_TRUE(reply.ParseFromString(*call->Receive()));
  ASSERT_EQ(reply.maxima().rowwise_size(), 32);
  EXPECT_EQ(reply.maxima().rowwise(0), 1.0f);
  EXPECT_EQ(reply.maxima().rowwise(31), 3.0f);
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  ExpectWrong(call.get(), "reduced_amax.rowwise");

  // A tensor without rows has no payload, and its maxima are 0.
  call = Open(Request(0));
  ASSERT_TRUE(reply.ParseFromString(*call->Receive()));
  ASSERT_EQ(reply.maxima().rowwise_size(), 1);
  EXPECT_EQ(reply.maxima().rowwise(0), 0.0f);
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  ASSERT_TRUE(call->HalfClose());
  EXPECT_TRUE(End(call.get()).status.ok());
}

TEST_F(StreamAmaxTest, RefusesRequestsWithoutAnAmax) {
  StartReal({"cpu:0"});
  const auto refused =
      [&](const std::function<void(v1::QuantizeOptions*)>& set) {
        v1::QuantizeRequest request = Request(64);
        set(request.mutable_options());
        RpcCall call(channel_, Stream());
        EXPECT_TRUE(call.Send(Start(request)));
        const RpcResult result = End(&call);
        EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
        return result.detail ? result.detail->field() : "";
      };
  EXPECT_EQ(refused([](auto* o) { o->set_format(v1::FORMAT_MXFP8_E4M3); }),
            "reduce_amax");
  EXPECT_EQ(refused([](auto* o) {
              o->set_usage(v1::USAGE_NONE);
              o->set_amax(true);
            }),
            "reduce_amax");
  EXPECT_EQ(refused([](auto* o) { o->mutable_splits()->add_rows(64); }),
            "splits");
  EXPECT_EQ(refused([](auto* o) {
              o->set_usage(v1::USAGE_BOTH);
              o->mutable_rht()->set_columnwise(true);
              o->mutable_given_amax()->set_rowwise(1);
            }),
            "given_amax");
  EXPECT_EQ(refused([](auto* o) {
              o->set_format(v1::FORMAT_FP8_E4M3);
              o->mutable_history()->add_amax(1);
            }),
            "history");
  // The tensor has 65537 lines, but a client may return at most 65536 values.
  v1::QuantizeRequest tall = Request(0);
  tall.mutable_options()->set_format(v1::FORMAT_FP8_CHANNEL_E4M3);
  tall.mutable_tensor()->set_shape(0, 65537);
  tall.mutable_tensor()->set_shape(1, 16);
  v1::StreamRequest start;
  *start.mutable_reduce_amax() = tall;
  start.set_payload_bytes(uint64_t{65537} * 32);
  RpcCall call(channel_, Stream());
  ASSERT_TRUE(call.Send(start.SerializeAsString()));
  ExpectEnd(&call, grpc::INVALID_ARGUMENT, ErrorDetail::REASON_TOO_LARGE,
            "reduce_amax");
  // Non-finite maxima that the policy rejects give an error in place of the
  // maxima.
  v1::QuantizeRequest request = Request(64);
  request.mutable_options()->set_non_finite(v1::NON_FINITE_REJECT);
  request.mutable_payload()->replace(0, 2, "\x80\x7f");  // Inf
  ExpectWrong(Open(request).get(), "payload");
}

TEST_F(StreamAmaxTest, RefusesInvalidReducedAmaxes) {
  StartReal({"cpu:0"});
  const auto answer = [&](const v1::StreamRequest& message,
                          const std::string& field) {
    auto call = Await(16);
    ASSERT_TRUE(call->Send(message.SerializeAsString()));
    ExpectWrong(call.get(), field);
  };
  for (const float wrong :
       {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    answer(Rowwise(wrong), "reduced_amax.rowwise");
  }
  v1::StreamRequest message;
  message.mutable_reduced_amax();
  answer(message, "reduced_amax.rowwise");  // none
  message.mutable_reduced_amax()->add_rowwise_values(1);
  message.mutable_reduced_amax()->add_rowwise_values(1);
  answer(message, "reduced_amax.rowwise");  // too many
  message.mutable_reduced_amax()->set_rowwise(1);
  answer(message, "reduced_amax.rowwise");  // both forms
  message = Rowwise(1);
  message.mutable_reduced_amax()->set_columnwise(1);
  answer(message,
         "reduced_amax.columnwise");  // for data that are not requested
  // Other messages: an empty one, a chunk, a request.
  answer(v1::StreamRequest(), "reduced_amax");
  message = Rowwise(1);
  message.set_chunk("x");
  answer(message, "chunk");
  message = Rowwise(1);
  message.set_payload_bytes(5);
  answer(message, "request");
  auto call = Await(16);
  ASSERT_TRUE(call->Send("\xff"));
  ExpectEnd(call.get(), grpc::INVALID_ARGUMENT, ErrorDetail::REASON_MALFORMED);
}

TEST_F(StreamAmaxTest, RefusesReducedAmaxesAtTheWrongTime) {
  StartReal({"cpu:0"});
  const v1::QuantizeRequest request = Request(16);
  // The client half-closes instead of sending the amax.
  auto call = Await(16);
  ASSERT_TRUE(call->HalfClose());
  ExpectWrong(call.get(), "reduced_amax");
  // The client half-closes before it has sent all chunks.
  call = std::make_unique<RpcCall>(channel_, Stream());
  ASSERT_TRUE(call->Send(Start(request)));
  ASSERT_TRUE(call->Send(Chunk(request.payload().substr(1))));
  ASSERT_TRUE(call->HalfClose());
  ExpectWrong(call.get(), "payload");
  // Two reduced amaxes.
  call = Await(16);
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  call->Send(Rowwise(3).SerializeAsString());
  ExpectWrong(call.get(), "reduced_amax");
  // Reduced amaxes in the first message, and in place of a chunk.
  v1::StreamRequest first;
  ASSERT_TRUE(first.ParseFromString(Start(request)));
  first.mutable_reduced_amax()->set_rowwise(1);
  call = std::make_unique<RpcCall>(channel_, Stream());
  ASSERT_TRUE(call->Send(first.SerializeAsString()));
  ExpectWrong(call.get(), "reduced_amax");
  call = std::make_unique<RpcCall>(channel_, Stream());
  ASSERT_TRUE(call->Send(Start(request)));
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  ExpectWrong(call.get(), "reduced_amax");
  // A reduced amax in a stream that did not ask for one.
  v1::StreamRequest plain;
  *plain.mutable_quantize() = first.reduce_amax();
  plain.set_payload_bytes(first.payload_bytes());
  call = std::make_unique<RpcCall>(channel_, Stream());
  ASSERT_TRUE(call->Send(plain.SerializeAsString()));
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  ExpectWrong(call.get(), "reduced_amax");
}

}  // namespace
}  // namespace quantd
