#include "client/call/error_details.h"

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "fmt/format.h"

namespace quantd {
namespace {

constexpr char kErrorUrl[] = "quantd/server_error";
constexpr char kRequestIdUrl[] = "quantd/request_id";
constexpr char kRetryUrl[] = "quantd/retry_ms";
constexpr char kAttemptsUrl[] = "quantd/attempts";

std::string Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace

std::optional<ServerError> GetServerError(const absl::Status& status) {
  const std::string text = Payload(status, kErrorUrl);
  if (const auto limit = GetSizeLimit(status); limit && text.empty()) {
    return ServerError{ErrorReason::kTooLarge, *limit};
  }
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  int32_t reason = 0;
  uint64_t limit = 0;
  int64_t delay = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &reason) ||
      !absl::SimpleAtoi(words[1], &limit) ||
      !absl::SimpleAtoi(words[2], &delay)) {
    return std::nullopt;
  }
  return ServerError{static_cast<ErrorReason>(reason), limit,
                     std::chrono::milliseconds(delay)};
}

std::optional<RetryHint> GetRetryHint(const absl::Status& status) {
  int64_t ms = 0;
  if (!absl::SimpleAtoi(Payload(status, kRetryUrl), &ms)) return std::nullopt;
  return RetryHint{std::chrono::milliseconds(ms)};
}

std::string GetRequestId(const absl::Status& status) {
  return Payload(status, kRequestIdUrl);
}

int GetAttempts(const absl::Status& status) {
  int attempts = 0;
  return absl::SimpleAtoi(Payload(status, kAttemptsUrl), &attempts) ? attempts
                                                                    : 0;
}

namespace client {

void SetServerError(absl::Status* status, const ServerError& error) {
  status->SetPayload(
      kErrorUrl,
      absl::Cord(fmt::format("{} {} {}", static_cast<int32_t>(error.reason),
                             error.limit, error.retry_delay.count())));
}

void SetRetryHint(absl::Status* status, std::chrono::milliseconds delay) {
  status->SetPayload(kRetryUrl, absl::Cord(fmt::to_string(delay.count())));
}

void SetRequestId(absl::Status* status, std::string_view id) {
  status->SetPayload(kRequestIdUrl, absl::Cord(std::string(id)));
}

absl::Status Annotate(const absl::Status& status, std::string_view message,
                      int attempts) {
  absl::Status result(status.code(), std::string(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    result.SetPayload(url, value);
  });
  result.SetPayload(kAttemptsUrl, absl::Cord(fmt::to_string(attempts)));
  return result;
}

absl::Status NotOurMessage() {
  return absl::InternalError("the reply is not a valid quantd.v1 message");
}

}  // namespace client
}  // namespace quantd
