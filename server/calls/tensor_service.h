// Registers the methods with payloads with gRPC.
#ifndef QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_
#define QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include "proto/methods.h"

namespace quantd {

// The methods with payloads, as gRPC dispatches them. Everything else arrives
// through a generic service.
class TensorService final : public grpc::Service {
 public:
  TensorService() {
    using grpc::internal::RpcMethod;
    using grpc::internal::RpcServiceMethod;
    for (const wire::MethodSpec& row : wire::kPayloadMethods) {
      AddMethod(
          new RpcServiceMethod(row.path, RpcMethod::BIDI_STREAMING, nullptr));
      // The index counts the methods in the order added.
      MarkMethodAsync(static_cast<int>(wire::Index(row.method)));
    }
  }

  // Generated asynchronous services expose it, too. The methods are registered
  // as streams: a client that calls them as unary sees no difference, but the
  // call arrives before its message.
  using Service::RequestAsyncBidiStreaming;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_
