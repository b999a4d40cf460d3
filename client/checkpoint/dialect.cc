#include "client/checkpoint/dialect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/profile/profile.h"
#include "quantd/field_error.h"

namespace quantd::checkpoint {
namespace {

template <typename T>
struct NameRow {
  T value;
  std::string_view name;
};
constexpr NameRow<Dialect> kDialects[] = {
    {Dialect::kCompressedTensors, "compressed-tensors"},
    {Dialect::kModelOpt, "modelopt"},
    {Dialect::kDeepSeek, "deepseek"},
    {Dialect::kGptOss, "gpt-oss"},
    {Dialect::kComfy, "comfy"},
    {Dialect::kNone, "none"},
};
constexpr NameRow<WeightFormat> kWeightFormats[] = {
    {WeightFormat::kNvfp4, "nvfp4"},
    {WeightFormat::kNvfp4FourOverSix, "nvfp4_4over6"},
    {WeightFormat::kNvfp4Search, "nvfp4_search"},
    {WeightFormat::kFp8, "fp8"},
    {WeightFormat::kFp8Dynamic, "fp8_dynamic"},
    {WeightFormat::kFp8Block, "fp8_block"},
    {WeightFormat::kMxfp8, "mxfp8"},
    {WeightFormat::kMxfp4, "mxfp4"},
    {WeightFormat::kBf16, "bf16"},
};

template <typename Rows>
std::string NamesOf(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}
template <typename Rows>
auto Parse(const Rows& rows, std::string_view name)
    -> std::optional<decltype(rows[0].value)> {
  for (const auto& row : rows) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}
template <typename Rows, typename T>
std::string_view NameOf(const Rows& rows, T value) {
  for (const auto& row : rows) {
    if (row.value == value) return row.name;
  }
  return "";
}

std::vector<WeightLayout> MakeLayouts() {
  using D = Dialect;
  using W = WeightFormat;
  using F = quantd::Format;
  using P = Profile;
  using S = PartSource;
  using Shape = ScaleShape;
  const StoredPart fp8 = {S::kCodes, ".weight", "F8_E4M3"};
  const StoredPart fp4 = {S::kCodes, ".weight", "U8"};
  const StoredPart packed = {S::kCodes, ".weight_packed", "U8"};
  const auto scale = [](std::string_view dtype) {
    return StoredPart{S::kScales, ".weight_scale", dtype};
  };
  const StoredPart input = {S::kInputScale, ".input_scale", "F32"};
  const StoredPart divisor = {S::kGlobal, ".weight_global_scale", "F32"};
  const StoredPart input_divisor = {S::kInputScale, ".input_global_scale",
                                    "F32"};
  const StoredPart second = {S::kGlobal, ".weight_scale_2", "F32"};
  const auto e4m3 = scale("F8_E4M3");
  std::vector<WeightLayout> rows;
  const auto add = [&rows](D dialect, W format, F codes, P profile, Shape shape,
                           std::array<StoredPart, 4> parts) -> WeightLayout& {
    WeightLayout& row =
        rows.emplace_back(WeightLayout{dialect, format, codes, profile, shape});
    const bool divides = dialect == D::kCompressedTensors;
    if (divides) row.global_shape = Shape::kOne;
    if (codes == F::kNvfp4) {
      row.global = divides ? Global::kDivisor : Global::kMultiplier;
    }
    row.parts = parts;
    return row;
  };
  add(D::kCompressedTensors, W::kNvfp4, F::kNvfp4, P::kCompressedTensors020,
      Shape::kBlocks, {packed, e4m3, divisor, input_divisor});
  add(D::kCompressedTensors, W::kNvfp4FourOverSix, F::kNvfp4, P::kTe,
      Shape::kBlocks, {packed, e4m3, divisor, input_divisor})
      .four_over_six = true;
  add(D::kCompressedTensors, W::kNvfp4Search, F::kNvfp4, P::kTe, Shape::kBlocks,
      {packed, e4m3, divisor, input_divisor})
      .scale_search = true;
  add(D::kCompressedTensors, W::kFp8, F::kFp8E4M3, P::kCompressedTensors020,
      Shape::kOne, {fp8, scale("F32"), input});
  add(D::kCompressedTensors, W::kFp8Dynamic, F::kFp8ChannelE4M3,
      P::kCompressedTensors020, Shape::kColumn, {fp8, scale("F32")});
  add(D::kCompressedTensors, W::kFp8Block, F::kFp8SquareE4M3,
      P::kCompressedTensors020, Shape::kBlocks, {fp8, scale("F32")});
  add(D::kCompressedTensors, W::kMxfp8, F::kMxfp8E4M3, P::kCompressedTensors020,
      Shape::kBlocks, {fp8, scale("U8")});
  add(D::kCompressedTensors, W::kMxfp4, F::kMxfp4, P::kCompressedTensors020,
      Shape::kBlocks, {packed, scale("U8")});
  add(D::kModelOpt, W::kNvfp4, F::kNvfp4, P::kModelopt047, Shape::kBlocks,
      {fp4, e4m3, second, input});
  add(D::kModelOpt, W::kNvfp4FourOverSix, F::kNvfp4, P::kTe, Shape::kBlocks,
      {fp4, e4m3, second, input})
      .four_over_six = true;
  add(D::kModelOpt, W::kNvfp4Search, F::kNvfp4, P::kTe, Shape::kBlocks,
      {fp4, e4m3, second, input})
      .scale_search = true;
  add(D::kModelOpt, W::kFp8, F::kFp8E4M3, P::kModelopt047, Shape::kScalar,
      {fp8, StoredPart{S::kScales, ".weight_scale", "F32", ".weight_scale_inv"},
       StoredPart{S::kInputScale, ".input_scale", "F32", ".activation_scale"}})
      .needs_input_scale = true;
  add(D::kModelOpt, W::kMxfp8, F::kMxfp8E4M3, P::kModelopt047, Shape::kBlocks,
      {fp8, scale("U8")});
  add(D::kDeepSeek, W::kFp8Block, F::kFp8SquareE4M3, P::kDeepgemm,
      Shape::kBlocks,
      {fp8, StoredPart{S::kScales, ".weight_scale_inv", "F32", ".scale"}});
  add(D::kGptOss, W::kMxfp4, F::kMxfp4, P::kTe, Shape::kBlocks,
      {StoredPart{S::kCodes, "_blocks", "U8"},
       StoredPart{S::kScales, "_scales", "U8"}})
      .stacked = true;
  WeightLayout& comfy =
      add(D::kComfy, W::kNvfp4, F::kNvfp4, P::kComfy0240, Shape::kBlocks,
          {fp4, e4m3, second, StoredPart{S::kLabel, ".comfy_quant", "U8"}});
  comfy.high_half_first = comfy.swizzled = true;
  return rows;
}

// 448 * 6: the largest block scale times the largest element.
constexpr float kNvfp4Range = 2688.0f;
// 256 * 6: 4over6 uses block scales up to 256.
constexpr float kFourOverSixRange = 1536.0f;

float ScaleFor(Global rule, float amax, float range) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float scale = amax == 0 ? 1.0f : std::min(range / amax, kLargest);
  return rule == Global::kDivisor ? scale : 1.0f / scale;
}

}  // namespace

std::string_view Name(Dialect d) { return NameOf(kDialects, d); }
std::string_view Name(WeightFormat f) { return NameOf(kWeightFormats, f); }
std::optional<Dialect> ParseDialect(std::string_view name) {
  return Parse(kDialects, name);
}
std::optional<WeightFormat> ParseWeightFormat(std::string_view name) {
  if (const auto format = Parse(kWeightFormats, name)) return format;
  // A name of the service's own format selects the first row with these codes.
  const auto codes = ParseFormat(name);
  for (const WeightLayout& row : AllLayouts()) {
    if (row.codes == codes) return row.format;
  }
  return std::nullopt;
}
std::string DialectNames() { return NamesOf(kDialects); }
std::string WeightFormatNames() { return NamesOf(kWeightFormats); }

const std::vector<WeightLayout>& AllLayouts() {
  static const auto* const layouts =
      new std::vector<WeightLayout>(MakeLayouts());
  return *layouts;
}

const WeightLayout* FindLayout(Dialect dialect, WeightFormat format) {
  for (const WeightLayout& row : AllLayouts()) {
    if (row.dialect == dialect && row.format == format) return &row;
  }
  return nullptr;
}

absl::StatusOr<const WeightLayout*> LayoutOf(Dialect dialect,
                                             WeightFormat format) {
  if (const WeightLayout* row = FindLayout(dialect, format)) return row;
  std::vector<std::string_view> formats;
  std::vector<std::string_view> dialects;
  for (const WeightLayout& row : AllLayouts()) {
    if (row.dialect == dialect) formats.push_back(Name(row.format));
    if (row.format == format) dialects.push_back(Name(row.dialect));
  }
  if (dialect == Dialect::kNone) formats.push_back(Name(WeightFormat::kBf16));
  if (format == WeightFormat::kBf16) dialects.push_back(Name(Dialect::kNone));
  std::string expected = fmt::format("{} with --dialect {}",
                                     fmt::join(formats, ", "), Name(dialect));
  if (!dialects.empty()) {
    expected += fmt::format(", or this format with --dialect {}",
                            fmt::join(dialects, ", "));
  }
  return FieldError("--format", expected, Name(format));
}

QuantizeOptions OptionsOf(const WeightLayout& layout, Profile profile) {
  QuantizeOptions options;
  options.format = layout.codes;
  options.usage = Usage::kRowwise;
  options.profile = profile;
  // Every engine reads scales of any value. Restricting them to powers of two
  // would only lose accuracy.
  if (layout.format == WeightFormat::kFp8Block && profile == Profile::kTe) {
    options.fp8.power_of_two = false;
  }
  options.nvfp4.scale_search = layout.scale_search;
  if (layout.four_over_six) {
    options.nvfp4.four_over_six = FourOverSix::kMse;
    options.form.scale_256 = true;
  }
  return options;
}

absl::Status CheckProfileOf(const WeightLayout& layout, Profile profile) {
  if ((layout.four_over_six || layout.scale_search) &&
      profile != layout.profile) {
    return FieldError("--profile",
                      fmt::format("{}, the only profile that has {}",
                                  Name(layout.profile), Name(layout.format)),
                      Name(profile));
  }
  const Numerics* numerics = FindNumerics(profile, layout.codes);
  const Numerics* own = FindNumerics(layout.profile, layout.codes);
  // the dialect stores the even element in the high half
  const bool halves = own != nullptr && own->high_first;
  const TensorKind kind = numerics == nullptr || profile == Profile::kTe
                              ? TensorKind::kUnspecified
                              : KindOfGlobal(*numerics);
  const bool divisor = kind == TensorKind::kRowwiseGlobalDivisor;
  if (numerics != nullptr && numerics->high_first == halves &&
      (kind == TensorKind::kUnspecified || layout.global == Global::kNone ||
       divisor == (layout.global == Global::kDivisor))) {
    return absl::OkStatus();
  }
  return FieldError(
      "--profile",
      fmt::format("a profile that writes {} as {} stores it, like {}",
                  Name(layout.format), Name(layout.dialect),
                  Name(layout.profile)),
      Name(profile));
}

BlockShape BlockOf(const WeightLayout& layout) {
  if (layout.scale_shape == ScaleShape::kColumn) return {1, 0};
  if (layout.scale_shape != ScaleShape::kBlocks) return {};
  const FormatSpec& format = *FindFormat(layout.codes);
  return {format.square ? format.block : 1, format.block};
}

bool IsFourBits(const WeightLayout& layout) {
  return FindFormat(layout.codes)->element == DType::kE2M1x2;
}

bool NeedsAmax(const WeightLayout& layout) {
  return layout.global != Global::kNone ||
         layout.scale_shape == ScaleShape::kScalar ||
         layout.scale_shape == ScaleShape::kOne;
}

std::vector<int64_t> ShapeOf(const WeightLayout& layout, PartSource source,
                             int64_t rows, int64_t cols) {
  const auto scalar = [](ScaleShape shape) {
    return shape == ScaleShape::kOne ? std::vector<int64_t>{1}
                                     : std::vector<int64_t>{};
  };
  switch (source) {
    case PartSource::kNothing:
      break;
    case PartSource::kCodes: {
      const bool half = IsFourBits(layout);
      return {rows, half ? cols / 2 : cols};
    }
    case PartSource::kScales: {
      if (layout.scale_shape == ScaleShape::kColumn) return {rows, 1};
      if (layout.scale_shape != ScaleShape::kBlocks) {
        return scalar(layout.scale_shape);
      }
      const BlockShape block = BlockOf(layout);
      const int64_t down = CeilDiv(rows, block.rows);
      const int64_t across = CeilDiv(cols, block.cols);
      if (layout.swizzled) return {RoundUp(down, 128), RoundUp(across, 4)};
      return {down, across};
    }
    case PartSource::kGlobal:
    case PartSource::kInputScale:
      return scalar(layout.global_shape);
    case PartSource::kLabel:
      return {static_cast<int64_t>(kComfyLabel.size())};
  }
  return {};
}

WeightFormat StoredAs(WeightFormat format) {
  return format == WeightFormat::kNvfp4FourOverSix ||
                 format == WeightFormat::kNvfp4Search
             ? WeightFormat::kNvfp4
             : format;
}

float GlobalOf(Global rule, float amax) {
  return ScaleFor(rule, amax, kNvfp4Range);
}

float GlobalOf(const WeightLayout& layout, float amax) {
  return ScaleFor(layout.global, amax,
                  layout.four_over_six ? kFourOverSixRange : kNvfp4Range);
}

float AmaxOf(Global rule, float global) {
  return rule == Global::kDivisor ? kNvfp4Range / global : global * kNvfp4Range;
}

float InputScaleOf(Global rule, float amax) {
  if (rule == Global::kNone) return amax / LimitsOf(DType::kE4M3).max;
  return rule == Global::kMultiplier ? amax / kNvfp4Range
                                     : GlobalOf(rule, amax);
}

bool IsOf16Bits(double x) {
  int exponent = 0;
  const int bits = x <= 65504 ? 11 : 8;
  const double digits = std::ldexp(std::frexp(x, &exponent), bits);
  return std::abs(digits - std::nearbyint(digits)) <= std::ldexp(digits, -22);
}

bool IsReciprocal(Global rule, float global, bool all_large) {
  if (AmaxOf(rule, global) <= kNvfp4Range) return false;
  constexpr double kRange = kNvfp4Range;
  const double scale = rule == Global::kDivisor ? 1.0 / global : global;
  // compressed-tensors computes divisors of 16-bit weights in 16 bits.
  const bool own = IsOf16Bits(kRange * scale) || IsOf16Bits(1 / scale);
  const bool other = IsOf16Bits(kRange / scale) || IsOf16Bits(scale);
  return own == other ? all_large : other;
}

}  // namespace quantd::checkpoint
