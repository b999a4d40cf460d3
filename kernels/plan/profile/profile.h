// Profiles: other libraries, in a given version, whose bytes quantd reproduces.
// They use the same formats with different arithmetic.
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
  bool f16 = true;                // whether fp16 input is accepted
  bool scale_rule = false;        // whether a request may choose the MX rule
  ProfileFormat formats[6] = {};  // formats of the library; unused rows are
                                  // unspecified
};
absl::Span<const ProfileSpec> Profiles();

// The row of `p`, or nullptr for an unknown profile.
const ProfileSpec* FindProfile(Profile p);

// The Numerics of a profile for a format; nullptr if the library does not have
// the format. TransformerEngine has every format.
const Numerics* FindNumerics(Profile p, Format f);

// The Numerics for `options`, which must be legal.
Numerics NumericsOf(const QuantizeOptions& options);

// The kind of tensor that stores the global scale; unspecified if it is not
// stored.
TensorKind KindOfGlobal(const Numerics& numerics);

// The format's row with the profile's change: some profiles store scales in the
// input's type.
FormatSpec FormatUnder(Profile p, Format f, DType input);

// INVALID_ARGUMENT (FieldError) for a format, type or copy that the profile's
// library does not have.
absl::Status CheckProfile(const QuantizeOptions& options, DType input);
absl::Status CheckProfile(const DequantizeOptions& options, DType input);

// The names of all profiles as text: "te or modelopt@0.47 or ..".
std::string ProfileNames();

// The formats of each profile, as a Markdown table.
std::string ProfileMatrix();

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PROFILE_PROFILE_H_
