// Errors for illegal requests: INVALID_ARGUMENT with the field, the expected
// value and the actual value. The status carries the three parts, so that a
// server can send them as a typed detail.
#ifndef QUANTD_FIELD_ERROR_H_
#define QUANTD_FIELD_ERROR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

// Returns the status of `expr` from the enclosing function, unless the status
// is OK.
#define QUANTD_RETURN_IF_ERROR(expr)                \
  do {                                              \
    if (absl::Status s = (expr); !s.ok()) return s; \
  } while (false)

namespace quantd {

struct FieldViolation {
  std::string field;     // path in the request, such as "rht.sign_mask"
  std::string expected;  // the legal values
  std::string got;       // the value in the request
};

// INVALID_ARGUMENT "<field>: expected <expected>, got <got>".
absl::Status FieldError(std::string_view field, std::string_view expected,
                        std::string_view got);

// INVALID_ARGUMENT for a value that is larger than `limit` bytes or needs more
// memory than that.
absl::Status TooLargeError(std::string_view field, std::string_view expected,
                           std::string_view got, size_t limit);
// The limit of a status made by TooLargeError; nullopt for any other status.
std::optional<size_t> GetSizeLimit(const absl::Status& status);

// The parts of a status made by FieldError or TooLargeError; nullopt for any
// other status.
std::optional<FieldViolation> GetFieldViolation(const absl::Status& status);

}  // namespace quantd

#endif  // QUANTD_FIELD_ERROR_H_
