// The service as gRPC sees it. The four tensor methods are asynchronous and
// hand out raw bytes. GetServerInfo and DescribeQuantize are answered by gRPC's
// own threads, without admission and without a device, so they answer while the
// tensor methods are saturated.
#ifndef QUANTD_SERVER_TENSOR_SERVICE_H_
#define QUANTD_SERVER_TENSOR_SERVICE_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "proto/wire.h"
#include "server/call_registry.h"
#include "server/engine.h"
#include "server/metrics.h"
#include "server/request_ids.h"

namespace quantd {

class TensorService : public grpc::Service {
 public:
  // All must outlive the service. `registry` says when calls are turned away.
  TensorService(const Engine* engine, RequestIds* ids, Metrics* metrics,
                CallRegistry* registry, v1::Limits limits);

  // As in generated asynchronous services. The method is registered as a
  // stream, which looks the same to a client that calls it as unary, but lets
  // the call arrive before its message.
  void Request(
      wire::Method method, grpc::ServerContext* context,
      grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
      grpc::ServerCompletionQueue* queue, void* tag);

 private:
  void GetServerInfo(const v1::GetServerInfoRequest& request,
                     v1::GetServerInfoReply* reply) const;
  void FillServerInfo(v1::GetServerInfoReply* reply) const;
  grpc::Status DescribeQuantize(grpc::ServerContext* context,
                                const grpc::ByteBuffer& request,
                                grpc::ByteBuffer* reply);

  const Engine* const engine_;
  RequestIds* const ids_;
  Metrics* const metrics_;
  CallRegistry* const registry_;
  const v1::Limits limits_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_TENSOR_SERVICE_H_
