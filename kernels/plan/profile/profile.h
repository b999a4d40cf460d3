// Whose bytes are written: libraries that quantize into the same formats, each
// with its own arithmetic, in the version whose bytes were compared.
#ifndef QUANTD_KERNELS_PLAN_PROFILE_PROFILE_H_
#define QUANTD_KERNELS_PLAN_PROFILE_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"
#include "quantd/options.h"

namespace quantd {

struct ProfileFormat {
  Format format = Format::kUnspecified;
  Numerics numerics = {};
};

// A row of the table.
struct ProfileSpec {
  Profile profile;
  std::string_view name;
  bool f16 = true;          // takes fp16
  bool scale_rule = false;  // has MX rules to choose from; the default is floor
  ProfileFormat formats[6] = {};  // as many as are specified
};
absl::Span<const ProfileSpec> Profiles();

// The row of `p`, or nullptr when there is none.
const ProfileSpec* FindProfile(Profile p);

// The choices of a profile for a format; nullptr where the library has no such
// format. TransformerEngine's are those of every format.
const Numerics* FindNumerics(Profile p, Format f);

// The choices that `options`, which have been judged, come to.
Numerics NumericsOf(const QuantizeOptions& options);

// What the global scale of those choices is called in a payload; unspecified
// where they have none.
TensorKind KindOfGlobal(const Numerics& numerics);

// The row of the format with what the profile changes: the type of scales that
// are stored as the input is.
FormatSpec FormatUnder(Profile p, Format f, DType input);

// INVALID_ARGUMENT (FieldError) for a profile beside a format, a type or a copy
// that the library does not have.
absl::Status CheckProfile(const QuantizeOptions& options, DType input);
absl::Status CheckProfile(const DequantizeOptions& options, DType input);

// "te or modelopt@0.47 or ..": every name.
std::string ProfileNames();

// What each profile has, as a Markdown table.
std::string ProfileMatrix();

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PROFILE_PROFILE_H_
