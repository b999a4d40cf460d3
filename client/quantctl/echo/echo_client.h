// Calls of an echo server that carry what calls of a quantd would.
#ifndef QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_
#define QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/net/received_message.h"

namespace quantd::quantctl {

// How bytes are cut into messages, and where these go.
struct Arrangement {
  size_t piece_bytes = 0;  // of a message; 0: one message
  int connections = 1;     // that pieces go over
  // The pieces of a connection are messages of one call, sent while answers
  // come; else each is a call of its own, one after the other.
  bool streamed = false;
  // No byte of the answer comes before all of the input is there: two rounds of
  // calls, of which the first is answered by nothing. Not streamed.
  bool in_then_out = false;

  bool operator==(const Arrangement&) const = default;
};

// With connections as the SDK makes them. Thread-safe.
class EchoClient {
 public:
  // Does not connect yet. INVALID_ARGUMENT for what is not one address.
  static absl::StatusOr<std::unique_ptr<EchoClient>> Create(
      const std::string& address, int connections,
      std::chrono::milliseconds deadline);

  // Sends `input` and has `output` filled by the answer. INTERNAL where the
  // answer has another size; other errors say who did not answer.
  absl::Status Exchange(absl::Span<const std::byte> input,
                        absl::Span<std::byte> output, const Arrangement& how);

 private:
  EchoClient(std::string address, std::chrono::milliseconds deadline)
      : address_(std::move(address)), deadline_(deadline) {}
  absl::Status ByCalls(absl::Span<const std::byte> input,
                       absl::Span<std::byte> output, const Arrangement& how);
  absl::Status ByStreams(absl::Span<const std::byte> input,
                         absl::Span<std::byte> output, const Arrangement& how);
  // Works for each of so many connections, on a thread of its own.
  absl::Status OverConnections(
      size_t count,
      const std::function<absl::Status(grpc::GenericStub&, size_t)>& work);
  absl::Status Send(grpc::GenericStub& stub, absl::Span<const std::byte> input,
                    absl::Span<std::byte> output) const;
  absl::Status Stream(grpc::GenericStub& stub,
                      absl::Span<const std::byte> input,
                      absl::Span<std::byte> output, size_t pieces) const;
  absl::Status Take(ReceivedMessage* reply, absl::Span<std::byte> place) const;
  absl::Status ErrorOf(const grpc::Status& status) const;

  const std::string address_;
  const std::chrono::milliseconds deadline_;
  std::vector<std::unique_ptr<grpc::GenericStub>> connections_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_
