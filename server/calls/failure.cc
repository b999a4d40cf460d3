#include "server/calls/failure.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "proto/methods.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

using grpc::StatusCode;
using v1::ErrorDetail;

constexpr std::string_view kEllipsis = "...";

// Texts of errors are bounded, whatever the client sent: they may stay unread,
// and clients accept only a few KiB of trailers.
constexpr size_t kMostGot = 64;
constexpr size_t kMostMessage = 1024;

// At most `most` bytes of the text, cut between UTF-8 characters.
std::string Cut(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - kEllipsis.size();
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return fmt::format("{}{}", text.substr(0, end), kEllipsis);
}

// The status code that usually goes with each reason.
constexpr std::pair<ErrorDetail::Reason, StatusCode> kUsual[] = {
    {ErrorDetail::REASON_INVALID_FIELD, StatusCode::INVALID_ARGUMENT},
    {ErrorDetail::REASON_TOO_LARGE, StatusCode::INVALID_ARGUMENT},
    {ErrorDetail::REASON_MALFORMED, StatusCode::INVALID_ARGUMENT},
    {ErrorDetail::REASON_BUSY, StatusCode::RESOURCE_EXHAUSTED},
    {ErrorDetail::REASON_DRAINING, StatusCode::UNAVAILABLE},
    {ErrorDetail::REASON_NO_DEVICE, StatusCode::UNAVAILABLE},
    {ErrorDetail::REASON_DEVICE_FAULT, StatusCode::INTERNAL},
    {ErrorDetail::REASON_DEADLINE, StatusCode::DEADLINE_EXCEEDED},
    {ErrorDetail::REASON_DEADLINE, StatusCode::RESOURCE_EXHAUSTED},
    {ErrorDetail::REASON_CANCELLED, StatusCode::CANCELLED},
};

Failure Make(ErrorDetail::Reason reason, std::string_view message) {
  Failure failure;
  for (const auto& [usual, code] : kUsual) {
    if (usual != reason) continue;
    failure.code = code;
    break;
  }
  failure.message = Cut(message, kMostMessage);
  failure.detail.set_reason(reason);
  return failure;
}

// A failure that may be over after the retry delay.
Failure Later(ErrorDetail::Reason reason, StatusCode code, std::string_view why,
              absl::Duration retry_delay) {
  const int64_t delay =
      std::max<int64_t>(1, absl::ToInt64Milliseconds(retry_delay));
  Failure failure =
      Make(reason, fmt::format("{}: try again in {} ms", why, delay));
  failure.code = code;
  failure.detail.set_retry_delay_ms(static_cast<uint32_t>(delay));
  return failure;
}

}  // namespace

Failure Failure::BadRequest(const absl::Status& status) {
  if (auto violation = GetFieldViolation(status)) {
    violation->got = Cut(violation->got, kMostGot);
    const absl::Status told =
        FieldError(violation->field, violation->expected, violation->got);
    Failure failure =
        Make(ErrorDetail::REASON_INVALID_FIELD, std::string(told.message()));
    failure.detail.set_field(violation->field);
    failure.detail.set_expected(violation->expected);
    failure.detail.set_got(violation->got);
    if (const auto limit = GetSizeLimit(status)) {
      failure.detail.set_reason(ErrorDetail::REASON_TOO_LARGE);
      failure.detail.set_limit(*limit);
    }
    return failure;
  }
  return Make(ErrorDetail::REASON_MALFORMED, std::string(status.message()));
}

Failure Failure::FromJob(const absl::Status& status, std::string_view device,
                         absl::Duration retry_delay) {
  if (absl::IsInvalidArgument(status)) return BadRequest(status);
  if (absl::IsResourceExhausted(status)) return Busy(retry_delay);
  return Make(ErrorDetail::REASON_DEVICE_FAULT,
              fmt::format("device {} failed; the server's log has more "
                          "under the request id",
                          device));
}

Failure Failure::TooLarge(size_t bytes, size_t limit) {
  Failure failure = BadRequest(
      TooLargeError("request", fmt::format("at most {} bytes", limit),
                    fmt::format("{} bytes", bytes), limit));
  failure.message +=
      "; split the tensor, send it by rpc Stream or raise the server's limits";
  return failure;
}

Failure Failure::LongerThanDeclared(size_t bytes, size_t declared) {
  return BadRequest(FieldError(wire::kRequestBytesKey,
                               fmt::format("at least {}", bytes),
                               fmt::to_string(declared)));
}

Failure Failure::NoMessage() {
  return Make(ErrorDetail::REASON_MALFORMED,
              "the call ended without a request message");
}

Failure Failure::Busy(absl::Duration retry_delay) {
  return Later(ErrorDetail::REASON_BUSY, StatusCode::RESOURCE_EXHAUSTED, "busy",
               retry_delay);
}

Failure Failure::TooLate(absl::Duration retry_delay) {
  return Later(ErrorDetail::REASON_DEADLINE, StatusCode::RESOURCE_EXHAUSTED,
               "so busy that the call's deadline would be over first",
               retry_delay);
}

Failure Failure::Draining() {
  return Make(ErrorDetail::REASON_DRAINING, "the server is shutting down");
}

Failure Failure::NoDevice(absl::Duration retry_delay) {
  return Later(ErrorDetail::REASON_NO_DEVICE, StatusCode::UNAVAILABLE,
               "no device that could do this works at present; another server "
               "may have one",
               retry_delay);
}

Failure Failure::Deadline(std::string_view what) {
  return Make(ErrorDetail::REASON_DEADLINE,
              fmt::format("deadline exceeded {}", what));
}

Failure Failure::Cancelled() {
  return Make(ErrorDetail::REASON_CANCELLED, "cancelled by the client");
}

Failure Failure::Of(StatusCode code, std::string_view message) {
  Failure failure = Make(ErrorDetail::REASON_UNSPECIFIED, message);
  failure.code = code;
  return failure;
}

grpc::Status Failure::ToStatus() const {
  if (detail.reason() == ErrorDetail::REASON_UNSPECIFIED) {
    return grpc::Status(code, message);
  }
  google::protobuf::Any any;
  any.PackFrom(detail);
  // google.rpc.Status {int32 code = 1; string message = 2; repeated Any
  // details = 3}, which is not in protobuf itself.
  google::protobuf::UnknownFieldSet status;
  status.AddVarint(1, static_cast<uint64_t>(code));
  status.AddLengthDelimited(2, message);
  status.AddLengthDelimited(3, any.SerializeAsString());
  std::string details;
  status.SerializeToString(&details);
  return grpc::Status(code, message, details);
}

bool IsUsual(StatusCode code, ErrorDetail::Reason reason) {
  return std::find(std::begin(kUsual), std::end(kUsual),
                   std::pair(reason, code)) != std::end(kUsual);
}

std::string Name(StatusCode code) {
  // absl has the same codes by the same numbers.
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace quantd
