// The client's Credentials as gRPC needs them.
#ifndef QUANTD_CLIENT_NET_CHANNEL_CREDENTIALS_H_
#define QUANTD_CLIENT_NET_CHANNEL_CREDENTIALS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "quantd/credentials.h"

namespace quantd::client {

struct ChannelCredentials {
  std::shared_ptr<grpc::ChannelCredentials> channel;
  std::string server_name;    // in the certificate; empty: the target's name
  std::string authorization;  // metadata value; empty: not sent

  // Adds the server name to the arguments of a channel.
  void Configure(grpc::ChannelArguments* arguments) const;
  // Adds the token to the metadata of a call.
  void Authorize(grpc::ClientContext* context) const;
};

// Reads and checks the files. Returns a FieldError if a file cannot be used. A
// token may be sent in plain text only if `target` is on this machine.
absl::StatusOr<ChannelCredentials> LoadCredentials(
    std::string_view target, const Credentials& credentials);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CHANNEL_CREDENTIALS_H_
