// Requests that no server accepts, and that the SDK would not send.
#ifndef QUANTD_TESTS_SOAK_INVALID_CALLS_H_
#define QUANTD_TESTS_SOAK_INVALID_CALLS_H_

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/net/channel_credentials.h"
#include "quantd/call_options.h"

namespace quantd::soak {

class InvalidCalls {
 public:
  // Connects to the first address of `target`.
  static absl::StatusOr<std::unique_ptr<InvalidCalls>> Create(
      const std::string& target, const ClientOptions& options);

  struct Answer {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    bool told = false;  // the error is the server's
  };
  // Makes call number `number`, with a single attempt.
  Answer Call(uint64_t number);

 private:
  InvalidCalls(client::ChannelCredentials credentials,
               std::shared_ptr<grpc::Channel> channel,
               std::chrono::milliseconds deadline);

  const client::ChannelCredentials credentials_;
  const std::chrono::milliseconds deadline_;
  grpc::GenericStub stub_;
};

}  // namespace quantd::soak

#endif  // QUANTD_TESTS_SOAK_INVALID_CALLS_H_
