// The table of the options of each format. The plan's refusals, GetServerInfo
// and the support matrix of proto/WIRE.md use it.
#ifndef QUANTD_KERNELS_PLAN_SUPPORT_H_
#define QUANTD_KERNELS_PLAN_SUPPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "quantd/format.h"
#include "quantd/options.h"

namespace quantd {

struct OptionSpec {
  Option option;
  std::string_view name;   // "stochastic"
  std::string_view field;  // the field of QuantizeRequest, for messages
  std::string_view help;   // description in the matrix
};
absl::Span<const OptionSpec> Options();

// Two options that exclude each other in every format.
struct Conflict {
  Option a;
  Option b;
  bool columnwise_only;  // only if there is a columnwise copy
};
absl::Span<const Conflict> Conflicts();

// The options that a request uses, as bits.
uint32_t UsedOptions(const QuantizeOptions& options);

// INVALID_ARGUMENT (FieldError) if an option is illegal for the format or
// excludes another option. The error names the option and what would be legal.
absl::Status CheckSupport(const FormatSpec& format,
                          const QuantizeOptions& options);

// The input types and copies that every format supports.
inline constexpr DType kInputTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr Usage kUsages[] = {Usage::kRowwise, Usage::kColumnwise,
                                    Usage::kBoth, Usage::kNone};
// Names of the options that a format has.
std::vector<std::string_view> OptionsOf(const FormatSpec& format);

// Names of the formats that have an option: "nvfp4, mxfp4".
std::string FormatsWith(Option option);

// The matrix of formats and options as a Markdown table.
std::string SupportMatrix();

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_SUPPORT_H_
