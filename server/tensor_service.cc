#include "server/tensor_service.h"

#include <set>
#include <string>
#include <utility>

namespace quantd {

TensorService::TensorService(const Engine* engine, v1::Limits limits)
    : engine_(engine), limits_(std::move(limits)) {
  for (const wire::Method method : wire::kMethods) {
    const int index = static_cast<int>(method);  // the order of the .proto
    MarkMethodStreamed(index, nullptr);
    MarkMethodAsync(index);
  }
}

void TensorService::Request(
    wire::Method method, grpc::ServerContext* context,
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
    grpc::ServerCompletionQueue* queue, void* tag) {
  RequestAsyncBidiStreaming(static_cast<int>(method), context, stream, queue,
                            queue, tag);
}

grpc::Status TensorService::GetServerInfo(grpc::ServerContext*,
                                          const v1::GetServerInfoRequest*,
                                          v1::GetServerInfoReply* reply) {
  reply->set_version(QUANTD_VERSION);
  *reply->mutable_limits() = limits_;
  std::set<std::string> kinds;
  for (size_t i = 0; i < engine_->size(); ++i) {
    const BackendInfo& info = engine_->backend(i).info();
    const BackendStats stats = engine_->backend(i).stats();
    v1::Device* device = reply->add_devices();
    device->set_name(info.name);
    device->set_kind(info.kind);
    device->set_description(info.description);
    device->set_state(v1::Device::STATE_HEALTHY);
    device->set_memory_limit_bytes(info.memory_limit);
    device->set_memory_high_water_bytes(stats.pool_high_water);
    device->set_jobs(stats.jobs);
    device->set_rht_cache_hits(stats.rht_cache_hits);
    device->set_rht_cache_misses(stats.rht_cache_misses);
    device->set_rht_launches(stats.rht_launches);
    kinds.insert(info.kind);
  }
  for (const FormatSpec& spec : kFormats) {
    v1::FormatSupport* format = reply->add_formats();
    format->set_format(wire::ToProto(spec.format));
    format->set_name(std::string(spec.name));
    for (const std::string& kind : kinds) format->add_device_kinds(kind);
    for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      format->add_inputs(wire::ToProto(t));
    }
    for (const Usage u : {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth}) {
      format->add_usages(wire::ToProto(u));
    }
    format->add_rht_dimensions(16);
  }
  return grpc::Status::OK;
}

}  // namespace quantd
