#include "client/net/channel.h"

#include <grpcpp/create_channel.h>

#include "proto/net/address.h"

namespace quantd::client {

ChannelFactory::ChannelFactory(const ClientOptions& options,
                               const ChannelCredentials& credentials)
    : dead_peer_timeout_(options.dead_peer_timeout),
      credentials_(credentials) {}

grpc::ChannelArguments ChannelFactory::Arguments(const Address& address) const {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  // By default, all channels of a process to one target share a connection.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Retry is our own: gRPC does not retry calls above 256 KiB and copies
  // smaller ones.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
              static_cast<int>(dead_peer_timeout_.count()));
  // The server's certificate must have the name that the caller gave.
  if (!address.authority.empty()) {
    args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, address.authority);
  }
  // A proxy named by the environment cannot reach loopback addresses.
  if (security::IsLoopback(address.target))
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  credentials_.Configure(&args);
  args.SetUserAgentPrefix("quantd-client/" QUANTD_VERSION);
  return args;
}

std::shared_ptr<grpc::Channel> ChannelFactory::ForCalls(
    const Address& address) const {
  grpc::ChannelArguments args = Arguments(address);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // A keepalive time also sets TCP_USER_TIMEOUT, which ends a write that the
  // peer does not receive. By default, servers tolerate no shorter time.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 300'000);
  return grpc::CreateCustomChannel(address.target, credentials_.channel, args);
}

std::shared_ptr<grpc::Channel> ChannelFactory::ForHealth(
    const Address& address) const {
  grpc::ChannelArguments args = Arguments(address);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Despite its name, this argument limits the time of one connection attempt.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  // quantd accepts one ping every ten seconds. Another server may reject pings
  // at this rate; gRPC then doubles the interval.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 15'000);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address.target, credentials_.channel, args);
}

}  // namespace quantd::client
