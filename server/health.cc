#include "server/health.h"

#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/impl/method_handler_impl.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <optional>
#include <vector>

#include "server/completion_tag.h"

namespace quantd {
namespace {

using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

constexpr int kWatch = 1;  // its place among the methods
constexpr size_t kLongestRequest = 4096;

// HealthCheckRequest {string service = 1}; nothing for what it is not.
std::optional<std::string> ReadService(const grpc::ByteBuffer& request) {
  if (request.Length() > kLongestRequest) return std::nullopt;
  std::vector<grpc::Slice> slices;
  if (request.Length() != 0 && !request.Dump(&slices).ok()) return std::nullopt;
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(text)) return std::nullopt;
  std::string service;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == 1 &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      service = field.length_delimited();
    }
  }
  return service;
}

// HealthCheckResponse {ServingStatus status = 1}.
grpc::ByteBuffer MakeReply(char status) {
  const grpc::Slice slice(std::string{'\x08', status});
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

// One call of Watch. Owns itself; ends when the client or the server does.
class HealthService::Watcher {
 public:
  Watcher(HealthService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), writer_(&context_) {
    service_->registry_->Created();
    context_.AsyncNotifyWhenDone(&done_);
    service_->RequestAsyncServerStreaming(kWatch, &context_, &request_,
                                          &writer_, queue_, queue_, &arrived_);
  }

  // The status may have changed.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_->mutex_) {
    const Status now = service_->StatusOf(name_);
    if (writing_ || finished_ || now == told_) return;
    told_ = now;
    writing_ = true;
    ++pending_;
    writer_.Write(MakeReply(now), &written_);
  }

 private:
  void OnArrived(bool ok) {
    if (!ok) {  // the server shuts down; the done tag will not come
      pending_ = 1;
      return Ended();
    }
    new Watcher(service_, queue_);
    const std::optional<std::string> name = ReadService(request_);
    {
      absl::MutexLock lock(&service_->mutex_);
      if (name) {
        name_ = *name;
        service_->watchers_.insert(this);
        Tell();
      } else {
        finished_ = true;
        ++pending_;
        writer_.Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                    "not a HealthCheckRequest"),
                       &written_);
      }
    }
    Ended();
  }
  void OnWritten(bool ok) {
    {
      absl::MutexLock lock(&service_->mutex_);
      writing_ = false;
      if (ok) Tell();
    }
    Ended();
  }
  void OnDone(bool) {
    {
      absl::MutexLock lock(&service_->mutex_);
      service_->watchers_.erase(this);
      finished_ = true;
    }
    Ended();
  }
  // One event less to come. All of them come on the queue's one thread.
  void Ended() {
    if (--pending_ > 0) return;
    CallRegistry* const registry = service_->registry_;
    delete this;
    registry->Destroyed();
  }

  HealthService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  CompletionTag arrived_{[this](bool ok) { OnArrived(ok); }};
  CompletionTag written_{[this](bool ok) { OnWritten(ok); }};
  CompletionTag done_{[this](bool ok) { OnDone(ok); }};
  std::atomic<int> pending_{2};  // arrived, done
  std::string name_;
  char told_ = 0;
  bool writing_ = false;
  bool finished_ = false;
};

HealthService::HealthService(CallRegistry* registry) : registry_(registry) {
  using Handler =
      grpc::internal::RpcMethodHandler<HealthService, grpc::ByteBuffer,
                                       grpc::ByteBuffer>;
  AddMethod(new RpcServiceMethod(
      "/grpc.health.v1.Health/Check", RpcMethod::NORMAL_RPC,
      new Handler(
          [](HealthService* self, grpc::ServerContext*,
             const grpc::ByteBuffer* request,
             grpc::ByteBuffer* reply) { return self->Check(*request, reply); },
          this)));
  AddMethod(new RpcServiceMethod("/grpc.health.v1.Health/Watch",
                                 RpcMethod::SERVER_STREAMING, nullptr));
  MarkMethodAsync(kWatch);
}

HealthService::~HealthService() = default;

void HealthService::Start(grpc::ServerCompletionQueue* queue) {
  new Watcher(this, queue);
}

bool HealthService::serving() const {
  absl::MutexLock lock(&mutex_);
  return serving_;
}

void HealthService::SetServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
  for (Watcher* watcher : watchers_) watcher->Tell();
}

HealthService::Status HealthService::StatusOf(
    const std::string& service) const {
  if (!service.empty() && service != "quantd.v1.Quantd") {
    return kServiceUnknown;
  }
  return serving_ ? kServing : kNotServing;
}

grpc::Status HealthService::Check(const grpc::ByteBuffer& request,
                                  grpc::ByteBuffer* reply) {
  const std::optional<std::string> service = ReadService(request);
  if (!service) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        "not a HealthCheckRequest");
  }
  absl::MutexLock lock(&mutex_);
  const Status status = StatusOf(*service);
  if (status == kServiceUnknown) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service");
  }
  *reply = MakeReply(status);
  return grpc::Status::OK;
}

}  // namespace quantd
