// The Credentials of a client as gRPC takes them.
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
  std::string server_name;    // empty: the one dialled
  std::string authorization;  // value of the metadata; empty: none

  // For each channel.
  void Configure(grpc::ChannelArguments* arguments) const;
  // For each call.
  void Authorize(grpc::ClientContext* context) const;
};

// Reads and checks the files. FieldError for a file that cannot be used;
// `target` decides whether a token may go there in plain text.
absl::StatusOr<ChannelCredentials> LoadCredentials(
    std::string_view target, const Credentials& credentials);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CHANNEL_CREDENTIALS_H_
