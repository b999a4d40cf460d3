// Writes the error details that quantd/error.h reads.
#ifndef QUANTD_CLIENT_CALL_ERROR_DETAILS_H_
#define QUANTD_CLIENT_CALL_ERROR_DETAILS_H_

#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "quantd/error.h"

namespace quantd::client {

// Attaches the reason that the server gave.
void SetServerError(absl::Status* status, const ServerError& error);

// Records that the call may be repeated after `delay`.
void SetRetryHint(absl::Status* status, std::chrono::milliseconds delay);

void SetRequestId(absl::Status* status, std::string_view id);

// The INTERNAL error for a reply that is not valid.
absl::Status NotOurMessage();

// Returns `status` with `message` as its text and the number of attempts
// attached.
absl::Status Annotate(const absl::Status& status, std::string_view message,
                      int attempts);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_ERROR_DETAILS_H_
