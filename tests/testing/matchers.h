// Matchers and assertions shared by all tests.
#ifndef QUANTD_TESTS_TESTING_MATCHERS_H_
#define QUANTD_TESTS_TESTING_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

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

// A status whose message matches `text`. No text matches that of OK.
MATCHER_P(Says, text, "has a message that fits") {
  *result_listener << StatusOf(arg).ToString() << " ";
  return !StatusOf(arg).ok() &&
         testing::ExplainMatchResult(text, std::string(StatusOf(arg).message()),
                                     result_listener);
}

// An input that is refused with a message that matches `text`.
template <typename Text>
auto Refused(const Text& text) {
  return testing::AllOf(StatusIs(absl::StatusCode::kInvalidArgument),
                        Says(text));
}

// Assigns the value of a StatusOr to `to`, which may declare a variable, or
// fails the test with its error.
#define ASSERT_OK_AND_ASSIGN(to, ...) \
  ASSERT_OK_AND_ASSIGN_AT_(__LINE__, to, __VA_ARGS__)
#define ASSERT_OK_AND_ASSIGN_AT_(line, to, ...) \
  ASSERT_OK_AND_ASSIGN_TO_(line, to, __VA_ARGS__)
#define ASSERT_OK_AND_ASSIGN_TO_(line, to, ...) \
  auto made_##line = (__VA_ARGS__);             \
  ASSERT_THAT(made_##line, quantd::IsOk());     \
  to = *std::move(made_##line)

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
