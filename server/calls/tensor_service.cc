#include "server/calls/tensor_service.h"

#include <grpcpp/impl/rpc_service_method.h>

namespace quantd {

TensorService::TensorService() {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  for (const wire::MethodSpec& row : wire::kPayloadMethods) {
    AddMethod(
        new RpcServiceMethod(row.path, RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodAsync(static_cast<int>(wire::Index(row.method)));  // as added
  }
}

}  // namespace quantd
