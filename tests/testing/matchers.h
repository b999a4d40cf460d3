// Matchers and assertions shared by all tests.
#ifndef QUANTD_TESTS_TESTING_MATCHERS_H_
#define QUANTD_TESTS_TESTING_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd {

inline const absl::Status& StatusOf(const absl::Status& s) { return s; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& s) {
  return s.status();
}

MATCHER(IsOk, "is OK") {
  if (StatusOf(arg).ok()) return true;
  *result_listener << StatusOf(arg).ToString();
  return false;
}

MATCHER_P(StatusIs, code, "has status " + absl::StatusCodeToString(code)) {
  if (StatusOf(arg).code() == code) return true;
  *result_listener << StatusOf(arg).ToString();
  return false;
}

// The field that an error names; for any other status its text.
inline std::string FieldOf(const absl::Status& status) {
  const auto violation = GetFieldViolation(status);
  return violation ? violation->field : status.ToString();
}

// Success for equal bytes; else a failure with the position of the first
// difference and the number of them. `what` describes the tensor, its shape and
// its origin.
template <typename Expected, typename Actual>
testing::AssertionResult BytesEq(std::string_view what,
                                 const Expected& expected,
                                 const Actual& actual) {
  static_assert(sizeof(expected[0]) == 1 && sizeof(actual[0]) == 1);
  if (expected.size() != actual.size()) {
    return testing::AssertionFailure()
           << what << ": expected " << expected.size() << " bytes, got "
           << actual.size();
  }
  const size_t size = expected.size();
  if (size == 0 || std::memcmp(expected.data(), actual.data(), size) == 0) {
    return testing::AssertionSuccess();
  }
  size_t first = 0;
  size_t count = 0;
  for (size_t i = size; i-- > 0;) {
    if (static_cast<unsigned>(expected[i]) ==
        static_cast<unsigned>(actual[i])) {
      continue;
    }
    first = i;
    ++count;
  }
  return testing::AssertionFailure() << fmt::format(
             "{}: {} of {} bytes differ, first at {}: expected "
             "0x{:02X}, got 0x{:02X}",
             what, count, expected.size(), first,
             static_cast<unsigned>(expected[first]),
             static_cast<unsigned>(actual[first]));
}

}  // namespace quantd

#endif  // QUANTD_TESTS_TESTING_MATCHERS_H_
