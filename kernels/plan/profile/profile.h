// Profiles: libraries that quantize into the same formats, each with its own
// arithmetic, in the version whose bytes were compared.
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
  bool f16 = true;                // accepts fp16 input
  bool scale_rule = false;        // has several MX rules; the default is floor
  ProfileFormat formats[6] = {};  // the formats of the library; the rest is
                                  // unspecified
};
absl::Span<const ProfileSpec> Profiles();

// The row of `p`, or nullptr for an unknown profile.
const ProfileSpec* FindProfile(Profile p);

// The choices of a profile for a format; nullptr if the library has no such
// format. TransformerEngine has every format.
const Numerics* FindNumerics(Profile p, Format f);

// The choices for `options`, which must be legal.
Numerics NumericsOf(const QuantizeOptions& options);

// The kind of tensor that stores the global scale under these choices;
// unspecified if nothing is stored.
TensorKind KindOfGlobal(const Numerics& numerics);

// The row of the format as the profile changes it: the type of scales that are
// stored in the input's type.
FormatSpec FormatUnder(Profile p, Format f, DType input);

// INVALID_ARGUMENT (FieldError) for a format, type or copy that the profile's
// library does not have.
absl::Status CheckProfile(const QuantizeOptions& options, DType input);
absl::Status CheckProfile(const DequantizeOptions& options, DType input);

// Every name as text: "te or modelopt@0.47 or ..".
std::string ProfileNames();

// The formats of each profile, as a Markdown table.
std::string ProfileMatrix();

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PROFILE_PROFILE_H_
