// Sends a message and receives the reply as raw bytes, in one or more attempts.
#ifndef QUANTD_CLIENT_NET_TRANSPORT_H_
#define QUANTD_CLIENT_NET_TRANSPORT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/call/call.h"
#include "client/call/call_control.h"
#include "client/net/channel_credentials.h"
#include "client/net/stream/pins.h"
#include "proto/net/received_message.h"

namespace quantd::client {

// One request. The serialized message is `head` followed by the pieces of the
// payload, which are the caller's memory.
struct Message {
  const char* method = nullptr;  // "/quantd.v1.Quantd/Quantize"
  std::string head = {};
  std::vector<absl::Span<const std::byte>> payload = {};

  size_t size() const;
};

// Sets the deadline, the token and the other metadata of an attempt.
void SetUp(const CallLimit& limit, const ChannelCredentials& credentials,
           grpc::ClientContext* context);

// Sends one message. Each attempt lends the payload to gRPC without a copy,
// unless it is small.
class Sender {
 public:
  // The first two arguments must outlive this. `busy_poll` is from
  // ClientOptions.
  Sender(const Message& message, const ChannelCredentials& credentials,
         std::chrono::microseconds busy_poll);
  // Waits until gRPC has released every piece of the payload.
  ~Sender();
  Sender(const Sender&) = delete;

  // Makes one attempt and waits for its end. `reply` must be empty.
  absl::Status Send(grpc::GenericStub& stub, const CallLimit& limit,
                    const OnSent& on_sent, CallControl& control,
                    ReceivedMessage* reply);

 private:
  grpc::ByteBuffer Assemble() const;
  // The part of Send that makes the call if `on_sent` is given: a streaming
  // call, which reports when the message has been written.
  grpc::Status SendAndTell(grpc::GenericStub& stub, const OnSent& on_sent,
                           grpc::ClientContext* context,
                           grpc::CompletionQueue& queue, CallControl& control,
                           ReceivedMessage* reply);

  const Message& message_;
  const ChannelCredentials& credentials_;
  const std::chrono::microseconds busy_poll_;
  const size_t size_;
  const std::shared_ptr<Pins> pins_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_TRANSPORT_H_
