// Sends a call as a stream, with retries. The payload is sent in chunks from
// the caller's memory. The reply is received in chunks into its destinations.
#ifndef QUANTD_CLIENT_NET_STREAM_STREAM_SENDER_H_
#define QUANTD_CLIENT_NET_STREAM_STREAM_SENDER_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call/call.h"
#include "client/call/call_control.h"
#include "client/call/reduction.h"
#include "client/net/channel_credentials.h"
#include "client/net/exchange.h"
#include "client/net/stream/pins.h"
#include "client/tensors/result_builder.h"
#include "proto/stream/chunks.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// Receives the reply of a stream. Replies are not trusted.
class StreamedReply {
 public:
  // status() has the error if the result's memory cannot be claimed. `reduces`
  // is true for a plan that reduces.
  StreamedReply(const Plan& plan, absl::Span<const Destination> into,
                bool reduces = false);

  // Returns RESOURCE_EXHAUSTED if there is no memory for the result.
  const absl::Status& status() const { return builder_.status(); }
  // Discards what a failed attempt has received.
  void Restart();
  // Takes one message of the reply. Returns INTERNAL if it does not match the
  // plan, and UNIMPLEMENTED if the server does not know an option of the plan.
  absl::Status Take(absl::Span<const std::string_view> message);
  // The maxima that the server found. If the plan reduces, they arrive first.
  const std::optional<CopyAmax>& maxima() const { return maxima_; }
  // Continues with the reply to SettledPlan(plan, reduced).
  absl::Status Settle(const CopyAmax& reduced);
  // Whether the last message has arrived.
  bool whole() const { return last_.has_value(); }
  // Returns the result. Call it once, when whole() is true.
  absl::StatusOr<Result> Finish(const Trip& trip);

 private:
  // Copies the next bytes of the reply's payload to the parts they belong to.
  void Place(std::string_view bytes);
  absl::Status TakeMaxima(const FoundMaxima& maxima);

  const Plan& plan_;
  const bool reduces_;
  std::optional<CopyAmax> maxima_;
  std::optional<Plan> settled_;
  const wire::PayloadLayout layout_;
  ResultBuilder builder_;
  std::vector<absl::Span<std::byte>> targets_;  // memory of the plan's outputs
  // Bytes of the reply's payload that have arrived.
  size_t received_ = 0;
  std::optional<wire::Reply> last_;
};

// Sends one call as a stream.
class StreamSender {
 public:
  // `head` is the first message. `reduction` is set if the plan reduces. All
  // arguments must outlive this.
  StreamSender(const std::string& head,
               absl::Span<const absl::Span<const std::byte>> payload,
               const ChannelCredentials& credentials,
               Reduction* reduction = nullptr);
  // Waits until gRPC has released every piece of the payload.
  ~StreamSender();
  StreamSender(const StreamSender&) = delete;

  size_t size() const { return head_.size() + payload_bytes_; }
  // Makes one attempt and waits for its end.
  absl::Status Send(grpc::GenericStub& stub, const CallLimit& limit,
                    const OnSent& on_sent, CallControl& control,
                    StreamedReply* reply);

 private:
  class Call;
  // A message with bytes [begin, begin + size) of the payload.
  grpc::ByteBuffer Chunk(size_t begin, size_t size) const;

  const std::string& head_;
  const absl::Span<const absl::Span<const std::byte>> payload_;
  const ChannelCredentials& credentials_;
  Reduction* const reduction_;
  size_t payload_bytes_ = 0;
  const std::shared_ptr<Pins> pins_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_STREAM_STREAM_SENDER_H_
