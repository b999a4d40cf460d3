#include "server/observe/health.h"

#include <google/protobuf/unknown_field_set.h>

#include <optional>
#include <utility>

#include "server/gate/gate.h"

namespace quantd {
namespace {

constexpr size_t kLongestRequest = 4096;
// A client needs one on a connection, orchestrators and proxies a few.
constexpr size_t kMaxWatchers = 1024;
constexpr int kMaxWatchersOfConnection = 16;

// HealthCheckRequest {string service = 1}; nothing for what it is not.
std::optional<std::string> ReadService(
    absl::Span<const std::string_view> message) {
  std::string text;
  for (const std::string_view piece : message) text += piece;
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
std::string MakeReply(char status) { return {'\x08', status}; }

Failure NotARequest() {
  return Failure::Of(grpc::StatusCode::INVALID_ARGUMENT,
                     "not a HealthCheckRequest");
}

}  // namespace

// One call of Watch; ends when the client or the server does.
class HealthService::Watcher final : public CallHandler {
 public:
  Watcher(HealthService* service, CallEnvironment* env, IncomingCall* call)
      : service_(service), env_(env), call_(call) {}
  ~Watcher() override {
    absl::MutexLock lock(&service_->mutex_);
    service_->watchers_.erase(this);
  }

  void Begin() override {
    {
      absl::MutexLock lock(&service_->mutex_);
      int of_connection = 0;
      for (const Watcher* w : service_->watchers_) {
        of_connection += w->call_->connection() == call_->connection() ? 1 : 0;
      }
      // Over a unix socket connections cannot be told apart.
      const bool countable = call_->connection()->countable();
      refused_ = service_->watchers_.size() >= kMaxWatchers ||
                 (countable && of_connection >= kMaxWatchersOfConnection);
      if (!refused_) service_->watchers_.insert(this);
    }
    if (refused_) {
      return Fail(
          Failure::Of(grpc::StatusCode::RESOURCE_EXHAUSTED,
                      "too many calls of Health/Watch; one on a connection "
                      "is enough"));
    }
    lease_ = env_->gate->Track(kLongestRequest, call_->connection()->host());
    {
      absl::MutexLock lock(&service_->mutex_);
      since_ = env_->now();
    }
    call_->Read(message_.buffer());
  }

  void OnRead(bool ok) override {
    const std::optional<std::string> name =
        ok && message_.size() <= kLongestRequest
            ? ReadService(message_.Pieces())
            : std::nullopt;
    message_.Clear();
    lease_.Reset();
    if (!name) return Fail(NotARequest());
    absl::MutexLock lock(&service_->mutex_);
    if (call_->answered()) return;
    name_ = *name;
    ready_ = true;
    Tell();
  }

  void OnWritten(bool ok) override {
    absl::MutexLock lock(&service_->mutex_);
    writing_ = false;
    if (ok) Tell();
  }

  void OnCancelled() override {
    // The last that may happen to the call: nobody writes to it any more.
    absl::MutexLock lock(&service_->mutex_);
    ready_ = false;
  }

  void OnWatch(absl::Time now) override {
    absl::MutexLock lock(&service_->mutex_);
    if (ready_ || refused_) return;
    if (now - since_ > env_->max_receive) FailLocked(NotARequest());
  }

  // The status may have changed.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_->mutex_) {
    const Status now = service_->StatusOf(name_);
    if (!ready_ || writing_ || now == told_ || call_->answered()) return;
    told_ = now;
    writing_ = true;
    const grpc::Slice slice(MakeReply(now));
    call_->Write(grpc::ByteBuffer(&slice, 1));
  }

 private:
  void Fail(const Failure& failure) {
    absl::MutexLock lock(&service_->mutex_);
    FailLocked(failure);
  }
  // Once it is answered nobody writes to it any more.
  void FailLocked(const Failure& failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_->mutex_) {
    if (!call_->ClaimAnswer()) return;
    ready_ = false;
    call_->Finish(failure.ToStatus());
  }

  HealthService* const service_;
  CallEnvironment* const env_;
  IncomingCall* const call_;
  bool refused_ = false;
  Lease lease_;
  ReceivedMessage message_;
  // Guarded by the service's lock.
  absl::Time since_ = absl::InfiniteFuture();
  std::string name_;
  char told_ = 0;
  bool ready_ = false;  // the name is known, and the stream open
  bool writing_ = false;
};

bool HealthService::serving() const {
  absl::MutexLock lock(&mutex_);
  return serving_ && has_device_;
}

void HealthService::SetServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
  for (Watcher* watcher : watchers_) watcher->Tell();
}

void HealthService::SetDevices(bool any) {
  absl::MutexLock lock(&mutex_);
  has_device_ = any;
  for (Watcher* watcher : watchers_) watcher->Tell();
}

HealthService::Status HealthService::StatusOf(
    const std::string& service) const {
  if (!service.empty() && service != "quantd.v1.Quantd") {
    return kServiceUnknown;
  }
  return serving_ && has_device_ ? kServing : kNotServing;
}

SmallMethod HealthService::Check() {
  SmallMethod method(kLongestRequest);
  method.answer = [this](absl::Span<const std::string_view> message,
                         std::string_view) {
    SmallAnswer answer;
    const std::optional<std::string> service = ReadService(message);
    if (!service) {
      answer.failure = NotARequest();
      return answer;
    }
    absl::MutexLock lock(&mutex_);
    const Status status = StatusOf(*service);
    if (status == kServiceUnknown) {
      answer.failure =
          Failure::Of(grpc::StatusCode::NOT_FOUND, "unknown service");
    } else {
      answer.reply = MakeReply(status);
    }
    return answer;
  };
  return method;
}

std::unique_ptr<CallHandler> HealthService::Watch(CallEnvironment* env,
                                                  IncomingCall* call) {
  return std::make_unique<Watcher>(this, env, call);
}

}  // namespace quantd
