// Calls of an echo server that carry what calls of a quantd would.
#ifndef QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_
#define QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd::quantctl {

// With connections as the SDK makes them. Thread-safe.
class EchoClient {
 public:
  // Does not connect yet. INVALID_ARGUMENT for what is not one address.
  static absl::StatusOr<std::unique_ptr<EchoClient>> Create(
      const std::string& address, int connections,
      std::chrono::milliseconds deadline);

  // Sends `input` and has `output` filled by the answer. As one message, or, if
  // `piece_bytes` is not 0, as messages of so many bytes, one at a time over
  // each connection, with the same share of the answer each. INTERNAL where the
  // answer has another size; other errors say who did not answer.
  absl::Status Exchange(absl::Span<const std::byte> input,
                        absl::Span<std::byte> output, size_t piece_bytes);

 private:
  EchoClient(std::string address, std::chrono::milliseconds deadline)
      : address_(std::move(address)), deadline_(deadline) {}
  absl::Status Send(grpc::GenericStub& stub, absl::Span<const std::byte> input,
                    absl::Span<std::byte> output) const;
  absl::Status ErrorOf(const grpc::Status& status) const;

  const std::string address_;
  const std::chrono::milliseconds deadline_;
  std::vector<std::unique_ptr<grpc::GenericStub>> connections_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_CLIENT_H_
