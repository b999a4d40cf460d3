#include "kernels/field_error.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace quantd {
namespace {

constexpr char kUrl[] = "quantd/field";
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

std::optional<FieldViolation> GetFieldViolation(const absl::Status& status) {
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(*payload), kSeparator);
  if (parts.size() != 3) return std::nullopt;
  return FieldViolation{parts[0], parts[1], parts[2]};
}

}  // namespace quantd
