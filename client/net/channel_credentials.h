// A client's Credentials in gRPC's form.
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

  // Applies to each channel.
  void Configure(grpc::ChannelArguments* arguments) const;
  // Applies to each call.
  void Authorize(grpc::ClientContext* context) const;
};

// Reads and checks the files. FieldError if a file cannot be used. `target`
// determines whether a token may be sent in plain text.
absl::StatusOr<ChannelCredentials> LoadCredentials(
    std::string_view target, const Credentials& credentials);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CHANNEL_CREDENTIALS_H_
