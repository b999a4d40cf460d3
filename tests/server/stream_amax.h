// The fixture of tests of streams with a reduced amax, step by step.
#ifndef QUANTD_TESTS_SERVER_STREAM_AMAX_H_
#define QUANTD_TESTS_SERVER_STREAM_AMAX_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/server_fixture.h"

namespace quantd {

inline RpcOptions Stream(absl::Duration deadline = absl::Minutes(2)) {
  RpcOptions options;
  options.method = "Stream";
  options.deadline = deadline;
  return options;
}

inline v1::QuantizeRequest Request(int64_t rows) {
  v1::QuantizeRequest request = QuantizeOnes(rows);
  // The payload is ones, with a 3 near the end.
  std::string& payload = *request.mutable_payload();
  if (payload.size() >= 2) {
    payload[payload.size() - 2] = '\x40';
    payload[payload.size() - 1] = '\x40';
  }
  return request;
}

inline std::string Start(v1::QuantizeRequest request) {
  v1::StreamRequest start;
  start.set_payload_bytes(request.payload().size());
  request.clear_payload();
  *start.mutable_reduce_amax() = request;
  return start.SerializeAsString();
}

inline std::string Chunk(const std::string& bytes) {
  v1::StreamRequest message;
  message.set_chunk(bytes);
  return message.SerializeAsString();
}

inline v1::StreamRequest Rowwise(float amax) {
  v1::StreamRequest answer;
  answer.mutable_reduced_amax()->set_rowwise(amax);
  return answer;
}

class StreamAmaxTest : public ServerTest {
 protected:
  // Opens a stream and sends its whole payload.
  std::unique_ptr<RpcCall> Open(const v1::QuantizeRequest& request,
                                absl::Duration deadline = absl::Minutes(2)) {
    auto call = std::make_unique<RpcCall>(channel_, Stream(deadline));
    EXPECT_TRUE(call->Send(Start(request)));
    if (!request.payload().empty()) {
      EXPECT_TRUE(call->Send(Chunk(request.payload())));
    }
    return call;
  }
  std::unique_ptr<RpcCall> Open(int64_t rows) { return Open(Request(rows)); }
  // Opens a stream and receives its maxima.
  std::unique_ptr<RpcCall> Await(int64_t rows, v1::Maxima* maxima = nullptr) {
    auto call = Open(rows);
    const auto message = call->Receive();
    EXPECT_TRUE(message.has_value());
    v1::StreamReply reply;
    if (message) {
      EXPECT_TRUE(reply.ParseFromString(*message));
    }
    EXPECT_TRUE(reply.has_maxima());
    if (maxima != nullptr) *maxima = reply.maxima();
    return call;
  }
  static RpcResult End(RpcCall* call) {
    while (call->Receive()) {
    }
    return call->Finish();
  }
  static void ExpectEnd(RpcCall* call, grpc::StatusCode code,
                        v1::ErrorDetail::Reason reason,
                        const std::string& field = "") {
    const RpcResult result = End(call);
    EXPECT_EQ(result.status.error_code(), code)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value()) << result.status.error_message();
    EXPECT_EQ(result.detail->reason(), reason);
    EXPECT_EQ(result.detail->field(), field) << result.status.error_message();
    EXPECT_FALSE(result.request_id.empty());
  }
  void ExpectWrong(RpcCall* call, const std::string& field) {
    ExpectEnd(call, grpc::StatusCode::INVALID_ARGUMENT,
              v1::ErrorDetail::REASON_INVALID_FIELD, field);
    EXPECT_TRUE(UsedBecomes(0));
  }
  bool UsedBecomes(size_t bytes) {
    return Eventually([&] { return server_->gate().used() == bytes; });
  }
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_STREAM_AMAX_H_
