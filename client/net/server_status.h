// From what gRPC says about a failed call to the absl::Status of
// quantd/error.h.
#ifndef QUANTD_CLIENT_NET_SERVER_STATUS_H_
#define QUANTD_CLIENT_NET_SERVER_STATUS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace quantd::client {

// `status` is not OK. Reads the trailers of `context`, whose call has ended.
// CANCELLED comes out only where the service said it: a caller knows of its own
// cancellation.
absl::Status FromGrpc(const grpc::Status& status,
                      const grpc::ClientContext& context);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_SERVER_STATUS_H_
