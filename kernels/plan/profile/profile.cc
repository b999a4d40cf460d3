#include "kernels/plan/profile/profile.h"

#include <iterator>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/plan_checks.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

// --- Numerics that several rows share ----------------------------------------

constexpr Numerics kModeloptNvfp4 = {
    .other = true,
    .global = GlobalRule::kQuotient,
    .stored = GlobalStored::kMultiplier,
    .target = ScaleTarget::kOverSixGlobals,
    .least_scale = 0x01,  // 2^-9
    .zero_scale = 0x38,   // 1
    .operation = Operation::kOver,
    .sign = SignRule::kNegative,
    .factor = FactorRule::kProduct,
};
constexpr Numerics kTorchaoNvfp4 = {
    .other = true,
    .global = GlobalRule::kQuotient,
    .stored = GlobalStored::kMultiplier,
    .target = ScaleTarget::kSixthOverGlobal,
    .least_scale = 0x08,  // 2^-6
    .zero_scale = 0x08,
    .factor = FactorRule::kProduct,
};
constexpr Numerics kComfyNvfp4 = {
    .other = true,
    .global = GlobalRule::kQuotient,
    .stored = GlobalStored::kMultiplier,
    .global_in_type = true,
    .target = ScaleTarget::kSixthOverGlobal,
    .operation = Operation::kOverOrZero,
    .high_first = true,
    .factor = FactorRule::kProduct,
    .factor_in_type = true,
};
constexpr Numerics kCompressedTensorsNvfp4 = {
    .other = true,
    .global = GlobalRule::kDivisor,
    .stored = GlobalStored::kDivisor,
    .target = ScaleTarget::kGlobalTimesSixth,
    .zero_scale = 0x20,  // 0.125
    .operation = Operation::kOver,
    .sign = SignRule::kNegative,
    .factor = FactorRule::kDivided,
};
constexpr Numerics kMilesNvfp4 = {
    .other = true,
    .stored = GlobalStored::kMultiplier,
    .factor = FactorRule::kProduct,
};

// The Numerics of a library on a GPU, where PyTorch divides a tensor by a
// number by multiplying by its inverse.
constexpr Numerics OnCuda(Numerics n) {
  if (n.global == GlobalRule::kQuotient) n.global = GlobalRule::kProduct;
  if (n.target == ScaleTarget::kSixthOverGlobal) {
    n.target = ScaleTarget::kProductOverGlobal;
  }
  if (n.fp8 == Fp8Rule::kQuotient) n.fp8 = Fp8Rule::kProduct;
  return n;
}

constexpr Numerics kModeloptFp8 = {
    .other = true,
    .fp8 = Fp8Rule::kQuotient,
    .least_normal = true,
    .operation = Operation::kOver,
    .factor_in_type = true,
};
constexpr Numerics kModeloptFp8Tensor = [] {
  Numerics n = kModeloptFp8;
  n.least_normal = false;
  n.in_type = true;
  return n;
}();
constexpr Numerics kModeloptFp8TensorCuda = [] {
  Numerics n = OnCuda(kModeloptFp8Tensor);
  n.operand_in_type = true;
  return n;
}();
constexpr Numerics kCompressedTensorsFp8 = {
    .other = true,
    .fp8 = Fp8Rule::kQuotient,
    .scale_in_type = true,
    .epsilon_for_zero = true,
    .operation = Operation::kOver,
    .in_type = true,
};
// Rounds only once, because a kernel of the library divides in fp32.
constexpr Numerics kCompressedTensorsFp8Cuda = [] {
  Numerics n = kCompressedTensorsFp8;
  n.in_type = false;
  return n;
}();
constexpr Numerics kDeepgemmFp8 = {
    .other = true,
    .fp8 = Fp8Rule::kQuotient,
    .least_amax = 1e-4f,
};

constexpr Numerics kModeloptMxfp8 = {.other = true, .mx = MxRule::kLog2};
constexpr Numerics kModeloptMxfp4 = {
    .other = true,
    .mx = MxRule::kLog2,
    .sign = SignRule::kNotPositive,
    .ties_to_zero = true,
};
constexpr Numerics kCompressedTensorsMxfp8 = {
    .other = true,
    .mx = MxRule::kBumped,
    .in_type = true,
};
constexpr Numerics kCompressedTensorsMxfp4 = [] {
  Numerics n = kCompressedTensorsMxfp8;
  n.sign = SignRule::kNegative;
  return n;
}();
constexpr Numerics kTorchaoMx = {
    .other = true,
    .exponent_at_zero = 126,
    .factor_in_type = true,
};

// --- the table --------------------------------------------------------------

constexpr ProfileSpec kProfiles[] = {
    // The profile te has every format, with the default Numerics.
    {.profile = Profile::kTe, .name = "te", .scale_rule = true},
    {.profile = Profile::kModelopt047,
     .name = "modelopt@0.47",
     .formats = {{Format::kNvfp4, kModeloptNvfp4},
                 {Format::kFp8E4M3, kModeloptFp8Tensor},
                 {Format::kFp8ChannelE4M3, kModeloptFp8},
                 {Format::kFp8SquareE4M3, kModeloptFp8},
                 {Format::kMxfp8E4M3, kModeloptMxfp8},
                 {Format::kMxfp4, kModeloptMxfp4}}},
    {.profile = Profile::kModelopt047Cuda,
     .name = "modelopt@0.47+cuda",
     .formats = {{Format::kNvfp4, OnCuda(kModeloptNvfp4)},
                 {Format::kFp8E4M3, kModeloptFp8TensorCuda},
                 {Format::kFp8ChannelE4M3, OnCuda(kModeloptFp8)},
                 {Format::kFp8SquareE4M3, OnCuda(kModeloptFp8)}}},
    {.profile = Profile::kCompressedTensors020,
     .name = "compressed-tensors@0.20",
     .formats = {{Format::kNvfp4, kCompressedTensorsNvfp4},
                 {Format::kFp8E4M3, kCompressedTensorsFp8},
                 {Format::kFp8ChannelE4M3, kCompressedTensorsFp8},
                 {Format::kFp8SquareE4M3, kCompressedTensorsFp8},
                 {Format::kMxfp8E4M3, kCompressedTensorsMxfp8},
                 {Format::kMxfp4, kCompressedTensorsMxfp4}}},
    {.profile = Profile::kCompressedTensors020Cuda,
     .name = "compressed-tensors@0.20+cuda",
     .formats = {{Format::kFp8E4M3, kCompressedTensorsFp8Cuda},
                 {Format::kFp8ChannelE4M3, kCompressedTensorsFp8Cuda},
                 {Format::kFp8SquareE4M3, kCompressedTensorsFp8Cuda}}},
    {.profile = Profile::kTorchao018,
     .name = "torchao@0.18",
     .f16 = false,
     .scale_rule = true,
     .formats = {{Format::kNvfp4, kTorchaoNvfp4},
                 {Format::kMxfp8E4M3, kTorchaoMx},
                 {Format::kMxfp4, kTorchaoMx}}},
    {.profile = Profile::kTorchao018Cuda,
     .name = "torchao@0.18+cuda",
     .f16 = false,
     .formats = {{Format::kNvfp4, OnCuda(kTorchaoNvfp4)}}},
    {.profile = Profile::kComfy0240,
     .name = "comfy@0.2.40",
     .formats = {{Format::kNvfp4, kComfyNvfp4}}},
    {.profile = Profile::kComfy0240Cuda,
     .name = "comfy@0.2.40+cuda",
     .formats = {{Format::kNvfp4, OnCuda(kComfyNvfp4)}}},
    {.profile = Profile::kDeepgemm,
     .name = "deepgemm",
     .formats = {{Format::kFp8SquareE4M3, kDeepgemmFp8}}},
    {.profile = Profile::kDeepgemmCuda,
     .name = "deepgemm+cuda",
     .formats = {{Format::kFp8SquareE4M3, OnCuda(kDeepgemmFp8)}}},
    {.profile = Profile::kMiles,
     .name = "miles",
     .formats = {{Format::kNvfp4, kMilesNvfp4}}},
};

constexpr Numerics kTeNumerics = {};

// The formats of a profile as text: "nvfp4 or fp8_e4m3".
std::string FormatsOf(const ProfileSpec& spec) {
  std::vector<std::string_view> names;
  for (const ProfileFormat& f : spec.formats) {
    if (f.format != Format::kUnspecified) names.push_back(Name(f.format));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

absl::Status CheckPair(Profile profile, Format format) {
  const ProfileSpec* spec = FindProfile(profile);
  if (spec == nullptr) {
    return FieldError("profile", ProfileNames(), NameOrNumber(profile));
  }
  if (FindNumerics(profile, format) == nullptr) {
    return FieldError(
        "format",
        fmt::format("{}, the formats of {}", FormatsOf(*spec), spec->name),
        Name(format));
  }
  return absl::OkStatus();
}

absl::Status CheckRowwise(Profile profile, Usage usage) {
  if (profile == Profile::kTe || usage == Usage::kRowwise) {
    return absl::OkStatus();
  }
  return FieldError("usage", fmt::format("rowwise with {}", Name(profile)),
                    Name(usage));
}

}  // namespace

absl::Span<const ProfileSpec> Profiles() { return kProfiles; }

const ProfileSpec* FindProfile(Profile p) {
  for (const ProfileSpec& row : kProfiles) {
    if (row.profile == p) return &row;
  }
  return nullptr;
}

const Numerics* FindNumerics(Profile p, Format f) {
  if (p == Profile::kTe) return &kTeNumerics;
  for (const ProfileFormat& row : FindProfile(p)->formats) {
    if (row.format == f && f != Format::kUnspecified) return &row.numerics;
  }
  return nullptr;
}

Numerics NumericsOf(const QuantizeOptions& options) {
  Numerics n = *FindNumerics(options.profile, options.format);
  // torchao's "rceil" does not limit the multiplier, unlike its other rules.
  if (n.other && options.mx.scale_rule == ScaleRule::kUp) {
    n.mx = MxRule::kLog2;
    n.exponent_at_zero = 0;
  }
  return n;
}

TensorKind KindOfGlobal(const Numerics& numerics) {
  switch (numerics.stored) {
    case GlobalStored::kMultiplier:
      return TensorKind::kRowwiseGlobalScale;
    case GlobalStored::kDivisor:
      return TensorKind::kRowwiseGlobalDivisor;
    case GlobalStored::kNothing:
      break;
  }
  return TensorKind::kUnspecified;
}

FormatSpec FormatUnder(Profile p, Format f, DType input) {
  FormatSpec spec = *FindFormat(f);
  if (FindNumerics(p, f)->scale_in_type) spec.scale = input;
  return spec;
}

absl::Status CheckProfile(const QuantizeOptions& o, DType input) {
  QUANTD_RETURN_IF_ERROR(CheckPair(o.profile, o.format));
  if (!FindProfile(o.profile)->f16 && input == DType::kF16) {
    return FieldError(
        "tensor.dtype",
        fmt::format("f32 or bf16, the input types of {}", Name(o.profile)),
        Name(input));
  }
  QUANTD_RETURN_IF_ERROR(CheckRowwise(o.profile, o.usage));
  if (o.mx.scale_rule && !FindProfile(o.profile)->scale_rule) {
    return FieldError(
        "scale_rule",
        fmt::format("none, because {} determines it", Name(o.profile)),
        NameOrNumber(*o.mx.scale_rule));
  }
  return absl::OkStatus();
}

absl::Status CheckProfile(const DequantizeOptions& o, DType input) {
  QUANTD_RETURN_IF_ERROR(CheckPair(o.profile, o.format));
  QUANTD_RETURN_IF_ERROR(CheckRowwise(o.profile, o.usage));
  if (FindNumerics(o.profile, o.format)->scale_in_type) {
    return CheckFloat("tensor.dtype", input);
  }
  return absl::OkStatus();
}

std::string ProfileNames() {
  std::vector<std::string_view> names;
  for (const ProfileSpec& row : kProfiles) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string ProfileMatrix() {
  std::string text = "| profile |";
  for (const FormatSpec& f : kFormats) text += fmt::format(" {} |", f.name);
  text += "\n| --- |";
  for (size_t i = 0; i < std::size(kFormats); ++i) text += " :-: |";
  text += "\n";
  for (const ProfileSpec& row : kProfiles) {
    text += fmt::format("| `{}` |", row.name);
    for (const FormatSpec& f : kFormats) {
      text += FindNumerics(row.profile, f.format) ? " x |" : " |";
    }
    text += "\n";
  }
  text += "\nNot from fp16:";
  const char* separator = " ";
  for (const ProfileSpec& row : kProfiles) {
    if (row.f16) continue;
    text += fmt::format("{}`{}`", separator, row.name);
    separator = ", ";
  }
  text += ". With `scale_rule`:";
  separator = " ";
  for (const ProfileSpec& row : kProfiles) {
    if (!row.scale_rule) continue;
    text += fmt::format("{}`{}`", separator, row.name);
    separator = ", ";
  }
  return text + ". Profiles other than `te`: rowwise copies only.\n";
}

std::string_view Name(Profile p) {
  const ProfileSpec* row = FindProfile(p);
  return row ? row->name : "unspecified";
}

std::optional<Profile> ParseProfile(std::string_view name) {
  for (const ProfileSpec& row : kProfiles) {
    if (row.name == name) return row.profile;
  }
  return std::nullopt;
}

}  // namespace quantd
