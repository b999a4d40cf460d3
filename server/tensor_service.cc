#include "server/tensor_service.h"

#include <grpcpp/impl/rpc_service_method.h>

namespace quantd {
namespace {

// gRPC keeps the pointer.
const char* Path(wire::Method method) {
  switch (method) {
    case wire::Method::kQuantize:
      return "/quantd.v1.Quantd/Quantize";
    case wire::Method::kDequantize:
      return "/quantd.v1.Quantd/Dequantize";
    case wire::Method::kRhtAmax:
      return "/quantd.v1.Quantd/RhtAmax";
    case wire::Method::kApplyRht:
      return "/quantd.v1.Quantd/ApplyRht";
  }
  return "";
}

}  // namespace

TensorService::TensorService() {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  for (const wire::Method method : wire::kMethods) {
    AddMethod(
        new RpcServiceMethod(Path(method), RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodAsync(static_cast<int>(method));  // its place, as added
  }
}

}  // namespace quantd
