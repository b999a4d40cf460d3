#include "server/tensor_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/method_handler_impl.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/support.h"
#include "server/failure.h"

namespace quantd {
namespace {

using grpc::internal::RpcMethod;
using grpc::internal::RpcMethodHandler;
using grpc::internal::RpcServiceMethod;

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

void AddSupport(const FormatSpec& spec, const std::set<std::string>& kinds,
                v1::FormatSupport* out) {
  out->set_format(wire::ToProto(spec.format));
  out->set_name(std::string(spec.name));
  for (const std::string& kind : kinds) out->add_device_kinds(kind);
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    out->add_inputs(wire::ToProto(t));
  }
  for (const Usage u :
       {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth, Usage::kNone}) {
    out->add_usages(wire::ToProto(u));
  }
  if (spec.options & kOptRht) {
    for (const int n : kRhtDimensions) out->add_rht_dimensions(n);
  }
  for (const OptionSpec& option : Options()) {
    if (spec.options & option.option) {
      out->add_options(std::string(option.name));
    }
  }
}

// A request of a few KiB: copying it costs nothing.
absl::StatusOr<std::shared_ptr<const Plan>> ReadDescribe(
    const grpc::ByteBuffer& request, const wire::RequestDefaults& defaults) {
  std::vector<grpc::Slice> slices;
  if (request.Length() != 0 && !request.Dump(&slices).ok()) {
    return wire::Malformed("it cannot be read");
  }
  std::vector<std::string_view> views;
  for (const grpc::Slice& slice : slices) {
    views.emplace_back(reinterpret_cast<const char*>(slice.begin()),
                       slice.size());
  }
  return wire::ParseDescribeRequest(views, defaults);
}

}  // namespace

TensorService::TensorService(const Engine* engine, RequestIds* ids,
                             Metrics* metrics, CallRegistry* registry,
                             v1::Limits limits)
    : engine_(engine),
      ids_(ids),
      metrics_(metrics),
      registry_(registry),
      limits_(std::move(limits)) {
  for (const wire::Method method : wire::kMethods) {
    AddMethod(
        new RpcServiceMethod(Path(method), RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodAsync(static_cast<int>(method));  // its place, as added
  }
  using Describe =
      RpcMethodHandler<TensorService, grpc::ByteBuffer, grpc::ByteBuffer>;
  AddMethod(new RpcServiceMethod(
      "/quantd.v1.Quantd/DescribeQuantize", RpcMethod::NORMAL_RPC,
      new Describe(
          [](TensorService* self, grpc::ServerContext* context,
             const grpc::ByteBuffer* request, grpc::ByteBuffer* reply) {
            if (self->registry_->Refuses()) {
              return Failure::Draining().ToStatus();
            }
            return self->DescribeQuantize(context, *request, reply);
          },
          this)));
  using Info = RpcMethodHandler<TensorService, v1::GetServerInfoRequest,
                                v1::GetServerInfoReply>;
  AddMethod(new RpcServiceMethod(
      "/quantd.v1.Quantd/GetServerInfo", RpcMethod::NORMAL_RPC,
      new Info(
          [](TensorService* self, grpc::ServerContext*,
             const v1::GetServerInfoRequest* request,
             v1::GetServerInfoReply* reply) {
            if (self->registry_->Refuses()) {
              return Failure::Draining().ToStatus();
            }
            self->GetServerInfo(*request, reply);
            return grpc::Status::OK;
          },
          this)));
}

void TensorService::Request(
    wire::Method method, grpc::ServerContext* context,
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
    grpc::ServerCompletionQueue* queue, void* tag) {
  RequestAsyncBidiStreaming(static_cast<int>(method), context, stream, queue,
                            queue, tag);
}

void TensorService::GetServerInfo(const v1::GetServerInfoRequest& request,
                                  v1::GetServerInfoReply* reply) const {
  CallRecord record;
  record.rpc = Rpc::kGetServerInfo;
  record.arrived = CallRecord::Clock::now();
  FillServerInfo(reply);
  record.code = grpc::StatusCode::OK;
  record.request_bytes = request.ByteSizeLong();
  record.reply_bytes = reply->ByteSizeLong();
  record.ended = CallRecord::Clock::now();
  metrics_->Record(record);
}

void TensorService::FillServerInfo(v1::GetServerInfoReply* reply) const {
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
    device->set_state(stats.healthy ? v1::Device::STATE_HEALTHY
                                    : v1::Device::STATE_QUARANTINED);
    device->set_memory_limit_bytes(info.memory_limit);
    device->set_memory_high_water_bytes(stats.pool_high_water);
    device->set_jobs(stats.jobs);
    device->set_rht_cache_hits(stats.rht_cache_hits);
    device->set_rht_cache_misses(stats.rht_cache_misses);
    device->set_rht_launches(stats.rht_launches);
    kinds.insert(info.kind);
  }
  for (const FormatSpec& spec : kFormats) {
    AddSupport(spec, kinds, reply->add_formats());
  }
}

grpc::Status TensorService::DescribeQuantize(grpc::ServerContext* context,
                                             const grpc::ByteBuffer& request,
                                             grpc::ByteBuffer* reply) {
  CallRecord record;
  record.rpc = Rpc::kDescribeQuantize;
  record.arrived = CallRecord::Clock::now();
  record.id = ids_->Next();
  context->AddTrailingMetadata("quantd-request-id", record.id);
  std::optional<Failure> failure;
  std::string shape;
  if (const auto plan =
          ReadDescribe(request, {limits_.amax_estimation_scale()});
      !plan.ok()) {
    failure = Failure::BadRequest(plan.status());
  } else {
    shape = fmt::format("{}", fmt::join((*plan)->tensor().shape, "x"));
    const grpc::Slice slice(wire::DescribeReply(**plan, record.id));
    *reply = grpc::ByteBuffer(&slice, 1);
  }
  record.request_bytes = request.Length();
  if (failure) {
    record.Fail(*failure);
    record.error = failure->message;
  } else {
    record.code = grpc::StatusCode::OK;
    record.reply_bytes = reply->Length();
  }
  record.ended = CallRecord::Clock::now();
  metrics_->Record(record);
  if (WouldLog(record)) LogCall(record, shape);
  return failure ? failure->ToStatus() : grpc::Status::OK;
}

}  // namespace quantd
