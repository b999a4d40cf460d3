#include "server/observe/health.h"

#include <google/protobuf/unknown_field_set.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quantd {
namespace {

using google::protobuf::UnknownField;

// A client needs one on a connection, orchestrators and proxies a few.
constexpr size_t kMaxWatchers = 1024;
constexpr size_t kMaxWatchersOfConnection = 16;

constexpr char kServiceUnknown = 3;

SmallAnswer Refuse(grpc::StatusCode code, std::string_view why) {
  SmallAnswer answer;
  answer.failure = Failure::Of(code, std::string(why));
  return answer;
}

// A HealthCheckResponse {ServingStatus status = 1}.
SmallAnswer Reply(char status) {
  SmallAnswer answer;
  answer.reply = {'\x08', status};
  return answer;
}

SmallAnswer NoRequest() {
  return Refuse(grpc::StatusCode::INVALID_ARGUMENT, "not a HealthCheckRequest");
}

// Whether the service named by a HealthCheckRequest {string service = 1}
// exists; nullopt if the message is malformed.
std::optional<bool> Knows(absl::Span<const std::string_view> message) {
  std::string text;
  for (const std::string_view piece : message) text += piece;
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(text)) return std::nullopt;
  std::string service;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == 1 &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      service = field.length_delimited();
    }
  }
  return service.empty() || service == "quantd.v1.Quantd";
}

}  // namespace

SmallMethod HealthService::Check() const {
  SmallMethod method;
  method.answer = [this](absl::Span<const std::string_view> message,
                         std::string_view) {
    const auto known = Knows(message);
    if (!known) return NoRequest();
    if (*known) return Reply(Status());
    return Refuse(grpc::StatusCode::NOT_FOUND, "unknown service");
  };
  return method;
}

SmallMethod HealthService::Watch(const Connection& connection) {
  SmallMethod method;
  method.after = SmallMethod::kNextChange;
  absl::MutexLock lock(&mutex_);
  // Connections over a unix socket cannot be told apart.
  if (watchers_.size() >= kMaxWatchers ||
      (connection.countable() &&
       watchers_.count(&connection) >= kMaxWatchersOfConnection)) {
    method.answer = [](absl::Span<const std::string_view>, std::string_view) {
      return Refuse(grpc::StatusCode::RESOURCE_EXHAUSTED,
                    "too many calls of Health/Watch; one on a connection is "
                    "enough");
    };
    return method;
  }
  const std::shared_ptr<void> place(
      nullptr, [this, it = watchers_.insert(&connection)](void*) {
        absl::MutexLock lock(&mutex_);
        watchers_.erase(it);
      });
  method.answer = [this, place, known = std::optional<bool>()](
                      absl::Span<const std::string_view> message,
                      std::string_view) mutable {
    // Asked again for changes, it is not given the request any more.
    if (!known) known = Knows(message);
    if (!known) return NoRequest();
    return Reply(*known ? Status() : kServiceUnknown);
  };
  return method;
}

}  // namespace quantd
