// The one place where channels to servers are made: their arguments and what
// secures them.
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

// Thread-safe.
class ChannelFactory {
 public:
  ChannelFactory(const ClientOptions& options,
                 const ChannelCredentials& credentials);

  // Every channel has a connection of its own, made when it is first used.
  std::shared_ptr<grpc::Channel> ForCalls(const Address& address) const;
  // To watch the server's health: notices sooner that the other side is gone,
  // and tries sooner whether it is back.
  std::shared_ptr<grpc::Channel> ForHealth(const Address& address) const;

 private:
  grpc::ChannelArguments Arguments(const Address& address) const;

  const std::chrono::milliseconds dead_peer_timeout_;
  const ChannelCredentials credentials_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CHANNEL_H_
