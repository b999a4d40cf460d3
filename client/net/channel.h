// Creates the channels to servers, with their arguments and credentials.
#ifndef QUANTD_CLIENT_NET_CHANNEL_H_
#define QUANTD_CLIENT_NET_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <memory>

#include "client/net/address.h"
#include "client/net/channel_credentials.h"
#include "quantd/call_options.h"

namespace quantd::client {

// Creates gRPC channels with the client's options and credentials. Thread-safe.
class ChannelFactory {
 public:
  ChannelFactory(const ClientOptions& options,
                 const ChannelCredentials& credentials);

  // A channel for calls. Each channel makes its own connection on first use.
  std::shared_ptr<grpc::Channel> ForCalls(const Address& address) const;
  // A channel for watching the server's health. It notices a lost server sooner
  // and reconnects sooner than a channel for calls.
  std::shared_ptr<grpc::Channel> ForHealth(const Address& address) const;

 private:
  grpc::ChannelArguments Arguments(const Address& address) const;

  const std::chrono::milliseconds dead_peer_timeout_;
  const ChannelCredentials credentials_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CHANNEL_H_
