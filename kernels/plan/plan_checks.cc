#include "kernels/plan/plan_checks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "fmt/ranges.h"

namespace quantd {

std::string ShapeText(const std::vector<int64_t>& shape) {
  constexpr size_t kMost = 8;
  const auto count = static_cast<ptrdiff_t>(std::min(shape.size(), kMost));
  return fmt::format("[{}{}]",
                     fmt::join(shape.begin(), shape.begin() + count, ", "),
                     shape.size() > kMost ? ", ..." : "");
}

absl::Status CheckFormat(Format format) {
  if (FindFormat(format)) return absl::OkStatus();
  std::vector<std::string_view> names;
  for (const FormatSpec& row : kFormats) names.push_back(row.name);
  return FieldError("format", fmt::format("{}", fmt::join(names, " or ")),
                    format == Format::kUnspecified
                        ? "none"
                        : fmt::format("number {}", static_cast<int>(format)));
}

absl::Status CheckFloat(std::string_view field, DType t) {
  if (IsFloat(t)) return absl::OkStatus();
  return FieldError(field, "f32, f16 or bf16",
                    t == DType::kUnspecified ? "none"
                    : Name(t) == "unspecified"
                        ? fmt::format("number {}", static_cast<int>(t))
                        : std::string(Name(t)));
}

absl::Status CheckUsage(Usage u, bool one) {
  const bool single = u == Usage::kRowwise || u == Usage::kColumnwise;
  if (single || (!one && (u == Usage::kBoth || u == Usage::kNone))) {
    return absl::OkStatus();
  }
  return FieldError(
      "usage",
      one ? "rowwise or columnwise" : "rowwise, columnwise, both or none",
      NameOrNumber(u));
}

absl::Status CheckNonFinite(NonFinite n) {
  return CheckNamed("non_finite", n, "ignore, propagate or reject");
}

absl::Status CheckValues(std::string_view field, absl::Span<const float> v,
                         size_t count, std::string_view names, bool zero) {
  if (v.empty()) return absl::OkStatus();
  if (v.size() != count) {
    const auto values = [](size_t n) {
      return fmt::format("{} value{}", n, n == 1 ? "" : "s");
    };
    return FieldError(field,
                      fmt::format("{}, one for {}", values(count), names),
                      values(v.size()));
  }
  for (float x : v) {
    if (std::isfinite(x) && (x > 0 || (zero && x == 0))) continue;
    return FieldError(field,
                      zero ? "a finite number >= 0" : "a finite number > 0",
                      fmt::to_string(x));
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(int64_t cols, int multiple, std::string_view why) {
  if (cols % multiple == 0) return absl::OkStatus();
  return FieldError("tensor.shape",
                    fmt::format("K (the product of the dimensions from "
                                "flatten_axis on) a multiple of {} for {}",
                                multiple, why),
                    fmt::format("K = {}", cols));
}

}  // namespace quantd
