// An Endpoint for servers. Every call becomes a message or stream to one
// server.
#ifndef QUANTD_CLIENT_NET_REMOTE_H_
#define QUANTD_CLIENT_NET_REMOTE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/call/endpoint.h"
#include "quantd/call_options.h"

namespace quantd::client {

// Implements Client::Create for servers. `options` must have passed
// CheckOptions.
absl::StatusOr<std::unique_ptr<Endpoint>> OpenRemote(
    std::string_view target, const ClientOptions& options);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_REMOTE_H_
