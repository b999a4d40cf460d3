#include "quantd/field_error.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace quantd {
namespace {

constexpr char kUrl[] = "quantd/field";
constexpr char kLimitUrl[] = "quantd/limit";
// Cannot occur in the parts, which are printable.
constexpr char kSeparator = '\0';

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view expected,
                        std::string_view got) {
  absl::Status status = absl::InvalidArgumentError(
      fmt::format("{}: expected {}, got {}", field, expected, got));
  status.SetPayload(
      kUrl, absl::Cord(fmt::format("{}{}{}{}{}", field, kSeparator, expected,
                                   kSeparator, got)));
  return status;
}

absl::Status TooLargeError(std::string_view field, std::string_view expected,
                           std::string_view got, size_t limit) {
  absl::Status status = FieldError(field, expected, got);
  status.SetPayload(kLimitUrl, absl::Cord(fmt::to_string(limit)));
  return status;
}

std::optional<size_t> GetSizeLimit(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitUrl);
  size_t limit = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &limit)) {
    return std::nullopt;
  }
  return limit;
}

std::optional<FieldViolation> GetFieldViolation(const absl::Status& status) {
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(*payload), kSeparator);
  if (parts.size() != 3) return std::nullopt;
  return FieldViolation{parts[0], parts[1], parts[2]};
}

}  // namespace quantd
