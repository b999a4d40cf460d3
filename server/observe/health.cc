#include "server/observe/health.h"

#include <google/protobuf/unknown_field_set.h>

#include <memory>
#include <string>
#include <string_view>

namespace quantd {
namespace {

using google::protobuf::UnknownField;

// A client needs one on a connection, orchestrators and proxies a few.
constexpr size_t kMaxWatchers = 1024;
constexpr size_t kMaxWatchersOfConnection = 16;

SmallAnswer Refuse(grpc::StatusCode code, std::string_view why) {
  SmallAnswer answer;
  answer.failure = Failure::Of(code, std::string(why));
  return answer;
}

}  // namespace

// To a HealthCheckRequest {string service = 1} a HealthCheckResponse
// {ServingStatus status = 1}.
SmallAnswer HealthService::Answer(absl::Span<const std::string_view> message,
                                  bool watches) const {
  std::string text;
  for (const std::string_view piece : message) text += piece;
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(text)) {
    return Refuse(grpc::StatusCode::INVALID_ARGUMENT,
                  "not a HealthCheckRequest");
  }
  std::string service;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == 1 &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      service = field.length_delimited();
    }
  }
  const bool known = service.empty() || service == "quantd.v1.Quantd";
  if (!known && !watches) {
    return Refuse(grpc::StatusCode::NOT_FOUND, "unknown service");
  }
  constexpr char kServing = 1;
  constexpr char kNotServing = 2;
  constexpr char kServiceUnknown = 3;
  SmallAnswer answer;
  answer.reply = {'\x08', !known      ? kServiceUnknown
                          : serving() ? kServing
                                      : kNotServing};
  return answer;
}

SmallMethod HealthService::Check() const {
  SmallMethod method;
  method.answer = [this](absl::Span<const std::string_view> message,
                         std::string_view) { return Answer(message, false); };
  return method;
}

SmallMethod HealthService::Watch(const Connection& connection) {
  SmallMethod method;
  method.after = SmallMethod::kNextChange;
  absl::MutexLock lock(&mutex_);
  // Over a unix socket connections cannot be told apart.
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
  method.answer = [this, place](absl::Span<const std::string_view> message,
                                std::string_view) {
    return Answer(message, true);
  };
  return method;
}

}  // namespace quantd
