// Checks of single values. All return a FieldError on failure.
#ifndef QUANTD_KERNELS_PLAN_PLAN_CHECKS_H_
#define QUANTD_KERNELS_PLAN_PLAN_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "quantd/field_error.h"
#include "quantd/format.h"

namespace quantd {

// A shape as text: "[2, 3]", or its first eight dimensions and "..." if it is
// longer.
std::string ShapeText(const std::vector<int64_t>& shape);

template <typename T>
std::string NameOrNumber(T value) {
  const std::string_view name = Name(value);
  return name == "unspecified"
             ? fmt::format("number {}", static_cast<int>(value))
             : std::string(name);
}

// Checks an enum that has no unspecified value. Every value with a name is
// legal.
template <typename T>
absl::Status CheckNamed(std::string_view field, T value,
                        std::string_view expected) {
  if (Name(value) != "unspecified") return absl::OkStatus();
  return FieldError(field, expected, NameOrNumber(value));
}

absl::Status CheckFormat(Format format);
absl::Status CheckFloat(std::string_view field, DType t);
// Checks a usage. With `one` it must name a single copy.
absl::Status CheckUsage(Usage u, bool one);
absl::Status CheckNonFinite(NonFinite n);
// Checks the count and range of a list. `names` says what one value is for,
// such as "each group".
absl::Status CheckValues(std::string_view field, absl::Span<const float> v,
                         size_t count, std::string_view names, bool zero);
absl::Status CheckColumns(int64_t cols, int multiple, std::string_view why);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PLAN_CHECKS_H_
