// Makes one call: picks a server, sends the request, and retries on this server
// or another, until there is an answer, a retry is useless, or the deadline
// passes.
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

// How a request was answered.
struct Trip {
  int attempts = 0;      // how often the request was sent
  bool by_unix = false;  // the last attempt used a unix socket
  // In some attempt no server answered. One may have received the request and
  // still work on it.
  bool unsure = false;
};

// Makes calls to the servers of one client. Thread-safe.
class Exchange {
 public:
  // `target` appears in error messages. `servers` must outlive this.
  Exchange(std::string target, const ClientOptions& options,
           const ChannelCredentials& credentials, Servers* servers);

  // Sends `message`. Returns after gRPC has released every piece of it. `reply`
  // must be empty. If no server can be reached, the error's text has the last
  // error of each server.
  absl::Status Run(const Message& message, const CallLimit& limit,
                   CallControl& control, ReceivedMessage* reply, Trip* trip,
                   const OnSent& on_sent = {});
  // Runs any other operation that sends `bytes` bytes, with the same retries.
  // Each call of `attempt` is one attempt.
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
