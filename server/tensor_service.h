// The service as gRPC sees it. The four tensor methods are asynchronous and
// hand out raw bytes; GetServerInfo is an ordinary synchronous method, so it
// answers while the tensor methods are saturated.
#ifndef QUANTD_SERVER_TENSOR_SERVICE_H_
#define QUANTD_SERVER_TENSOR_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "proto/wire.h"
#include "quantd.grpc.pb.h"
#include "server/engine.h"

namespace quantd {

class TensorService : public v1::Quantd::Service {
 public:
  // `engine` must outlive the service.
  TensorService(const Engine* engine, v1::Limits limits);

  // As in generated asynchronous services. The method is registered as a
  // stream, which looks the same to a client that calls it as unary, but lets
  // the call arrive before its message.
  void Request(
      wire::Method method, grpc::ServerContext* context,
      grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
      grpc::ServerCompletionQueue* queue, void* tag);

  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoReply* reply) override;

 private:
  const Engine* const engine_;
  const v1::Limits limits_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_TENSOR_SERVICE_H_
