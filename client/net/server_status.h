// Converts gRPC's status of a failed call to the absl::Status of
// quantd/error.h.
#ifndef QUANTD_CLIENT_NET_SERVER_STATUS_H_
#define QUANTD_CLIENT_NET_SERVER_STATUS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace quantd::client {

// `status` must not be OK. The call of `context` must have ended, because its
// trailers are read. Returns CANCELLED only if the service reported it: callers
// know of their own cancellations.
absl::Status FromGrpc(const grpc::Status& status,
                      const grpc::ClientContext& context);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_SERVER_STATUS_H_
