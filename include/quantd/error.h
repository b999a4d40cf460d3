// The details of a failed call, for programs. All functions read an
// absl::Status that a Client returned. Print `status.message()`: the operator
// << also prints these details, as bytes.
//
// GetFieldViolation of "quantd/field_error.h" returns the field that this
// library or the server refused.
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

// The details that a server sent with an error. GetServerError returns nullopt
// if the error is not from a server (no connection, a deadline that passed in
// this process, options refused by this library). One error of this library has
// these details, too: kTooLarge and the limit, if the fields other than the
// payload are larger than any server accepts.
struct ServerError {
  ErrorReason reason = ErrorReason::kUnspecified;
  uint64_t limit = 0;  // bytes, with kTooLarge
  // With kBusy and kNoDevice, and with kDeadline if the server was too busy.
  std::chrono::milliseconds retry_delay{0};
};
std::optional<ServerError> GetServerError(const absl::Status& status);

// Advice to repeat the same call later, because the server was busy, draining
// or not reachable. GetRetryHint returns nullopt for other errors. The client
// has already retried as far as its RetryPolicy and the deadline allow.
struct RetryHint {
  std::chrono::milliseconds delay{0};  // least time to wait; 0: unknown
};
std::optional<RetryHint> GetRetryHint(const absl::Status& status);

// The id under which the server logged the failed call; empty if the call
// reached no server or was made on devices of this process, which have no log.
std::string GetRequestId(const absl::Status& status);

// The number of times that the call was sent; 0 if it was refused before
// sending.
int GetAttempts(const absl::Status& status);

}  // namespace quantd

#endif  // QUANTD_ERROR_H_
