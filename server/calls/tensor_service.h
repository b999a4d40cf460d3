// The methods with payloads as gRPC matches them. Everything else arrives
// through a generic service. A tensor method holds their queues' threads for a
// short time only: health, information and refusals are answered there, too.
#ifndef QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_
#define QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "proto/methods.h"

namespace quantd {

class TensorService final : public grpc::Service {
 public:
  TensorService();

  // As in generated asynchronous services. The methods are registered as
  // streams, which look the same to a client that calls them as unary, but let
  // a call arrive before its message.
  void Request(
      wire::Method method, grpc::ServerContext* context,
      grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
      grpc::ServerCompletionQueue* events,
      grpc::ServerCompletionQueue* arrivals, void* tag) {
    RequestAsyncBidiStreaming(static_cast<int>(wire::Index(method)), context,
                              stream, events, arrivals, tag);
  }
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_TENSOR_SERVICE_H_
