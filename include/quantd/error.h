// The details of a failed call, for programs. Everything here reads the
// absl::Status that a Client returned.
//
// GetFieldViolation of "quantd/field_error.h" reads a refused field, whether
// this library or the server refused it.
#ifndef QUANTD_ERROR_H_
#define QUANTD_ERROR_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "quantd/field_error.h"

namespace quantd {

// The reason why the server, or a device of this process, failed the call. The
// numbers are those of quantd.proto.
enum class ErrorReason : int32_t {
  kUnspecified = 0,
  kInvalidField = 1,
  kTooLarge = 2,
  kMalformed = 3,
  kBusy = 4,
  kDraining = 5,
  kNoDevice = 6,
  kDeviceFault = 7,
  kDeadline = 8,
  kCancelled = 9,
};

// The server's account of a failure; nullopt when the failure is not the
// server's (no connection, a deadline that passed here, options refused by this
// library). A request with more beside its payload than any server accepts is
// refused by this library as the server would refuse it: kTooLarge and the
// limit.
struct ServerError {
  ErrorReason reason = ErrorReason::kUnspecified;
  uint64_t limit = 0;                        // bytes, with kTooLarge
  std::chrono::milliseconds retry_delay{0};  // with kBusy, kDeadline
};
std::optional<ServerError> GetServerError(const absl::Status& status);

// Says that the same call may succeed later: the server was busy, draining or
// not reachable. The client has already retried as far as its policy and the
// deadline allow.
struct RetryHint {
  std::chrono::milliseconds delay{0};  // earliest sensible time; 0: unknown
};
std::optional<RetryHint> GetRetryHint(const absl::Status& status);

// The id under which the server logged the failed call; empty when it never
// reached one, and in process, where there is no log.
std::string GetRequestId(const absl::Status& status);

// The number of times that the call was sent; 0 when it was refused before
// sending.
int GetAttempts(const absl::Status& status);

}  // namespace quantd

#endif  // QUANTD_ERROR_H_
