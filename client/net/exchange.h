// Makes one call: picks a server, sends, and retries there or elsewhere, until
// there is an answer, a retry is useless, or the time is up.
#ifndef QUANTD_CLIENT_NET_EXCHANGE_H_
#define QUANTD_CLIENT_NET_EXCHANGE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/call/call_control.h"
#include "client/net/channel_credentials.h"
#include "client/net/retry.h"
#include "client/net/servers.h"
#include "client/net/transport.h"
#include "proto/net/received_message.h"
#include "quantd/call_options.h"

namespace quantd::client {

// How a message reached its answer.
struct Trip {
  int attempts = 0;      // how often it was sent
  bool by_unix = false;  // the last attempt used a unix socket
  // A server that received it did not answer, and may still be working on it.
  bool unsure = false;
};

// Thread-safe.
class Exchange {
 public:
  // `target` is for error messages. `servers` must outlive this.
  Exchange(std::string target, const ClientOptions& options,
           const ChannelCredentials& credentials, Servers* servers);

  // Returns when gRPC holds no piece of the message any more. `reply` must be
  // empty. An error's text has the last error of every server that could not be
  // reached.
  absl::Status Run(const Message& message, const CallLimit& limit,
                   CallControl& control, ReceivedMessage* reply, Trip* trip,
                   const OnSent& on_sent = {});
  // Retries any other operation that sends `bytes`. Each call of `attempt` is
  // one attempt.
  using Attempt = absl::FunctionRef<absl::Status(grpc::GenericStub& stub,
                                                 const OnSent& on_sent)>;
  absl::Status Run(size_t bytes, Attempt attempt, const CallLimit& limit,
                   CallControl& control, Trip* trip, const OnSent& on_sent);

  const std::string& target() const { return target_; }

 private:
  absl::Status Explain(const absl::Status& status, const CallLimit& limit,
                       int attempts) const;

  const std::string target_;
  const RetryPolicy retry_;
  const std::chrono::microseconds busy_poll_;
  const ChannelCredentials credentials_;
  Servers* const servers_;
  RetryBudget budget_;
  std::atomic<uint64_t> seed_{std::random_device{}()};
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_EXCHANGE_H_
