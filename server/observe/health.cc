#include "server/observe/health.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quantd {
namespace {

// Limits of the calls of Health/Watch: a client needs one on a connection,
// orchestrators and proxies a few.
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

// Whether a HealthCheckRequest {string service = 1} names this server or its
// service.
bool Knows(absl::Span<const std::string_view> message) {
  std::string text;
  for (const std::string_view piece : message) text += piece;
  return text.empty() || text == std::string_view("\x0a\0", 2) ||
         text == "\x0a\x10quantd.v1.Quantd";
}

}  // namespace

SmallMethod HealthService::Check() const {
  SmallMethod method;
  method.answer = [this](absl::Span<const std::string_view> message,
                         std::string_view) {
    if (Knows(message)) return Reply(Status());
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
    // The request is given only the first time, not when changes are asked for.
    if (!known) known = Knows(message);
    return Reply(*known ? Status() : kServiceUnknown);
  };
  return method;
}

}  // namespace quantd
