#include "quantd/format.h"

namespace quantd {
namespace {

template <typename T>
struct Named {
  T value;
  std::string_view name;
};

constexpr Named<DType> kDTypes[] = {
    {DType::kF32, "f32"},       {DType::kF16, "f16"},   {DType::kBF16, "bf16"},
    {DType::kE2M1x2, "e2m1x2"}, {DType::kE4M3, "e4m3"}, {DType::kE5M2, "e5m2"},
    {DType::kE8M0, "e8m0"},
};
constexpr Named<Usage> kUsages[] = {
    {Usage::kRowwise, "rowwise"},
    {Usage::kColumnwise, "columnwise"},
    {Usage::kBoth, "both"},
    {Usage::kNone, "none"},
};
constexpr Named<NonFinite> kNonFinites[] = {
    {NonFinite::kIgnore, "ignore"},
    {NonFinite::kPropagate, "propagate"},
    {NonFinite::kReject, "reject"},
};
constexpr Named<Rounding> kRoundings[] = {
    {Rounding::kNearest, "nearest"},
    {Rounding::kStochastic, "stochastic"},
};
constexpr Named<ScaleRule> kScaleRules[] = {
    {ScaleRule::kUp, "up"},
    {ScaleRule::kFloor, "floor"},
    {ScaleRule::kCeil, "ceil"},
    {ScaleRule::kEven, "even"},
};
constexpr Named<FourOverSix> kFourOverSixes[] = {
    {FourOverSix::kOff, "off"},
    {FourOverSix::kMae, "mae"},
    {FourOverSix::kMse, "mse"},
};
constexpr Named<AmaxDomain> kDomains[] = {
    {AmaxDomain::kTensor, "tensor"},
    {AmaxDomain::kRow, "row"},
};
constexpr Named<HistoryRule> kHistoryRules[] = {
    {HistoryRule::kMax, "max"},
    {HistoryRule::kMostRecent, "most_recent"},
};
constexpr Named<Layout> kLayouts[] = {
    {Layout::kLinear, "linear"},
    {Layout::kSwizzled, "swizzled"},
};
constexpr Named<TensorKind> kKinds[] = {
    {TensorKind::kInput, "input"},
    {TensorKind::kRowwiseData, "rowwise_data"},
    {TensorKind::kRowwiseScale, "rowwise_scale"},
    {TensorKind::kRowwiseAmax, "rowwise_amax"},
    {TensorKind::kColumnwiseData, "columnwise_data"},
    {TensorKind::kColumnwiseScale, "columnwise_scale"},
    {TensorKind::kColumnwiseAmax, "columnwise_amax"},
    {TensorKind::kDequantized, "dequantized"},
    {TensorKind::kRotated, "rotated"},
    {TensorKind::kRowwiseRhtAmax, "rowwise_rht_amax"},
    {TensorKind::kColumnwiseRhtAmax, "columnwise_rht_amax"},
    {TensorKind::kAmax, "amax"},
    {TensorKind::kDbias, "dbias"},
    {TensorKind::kAmaxHistory, "amax_history"},
    {TensorKind::kNextScale, "next_scale"},
    {TensorKind::kRowwiseGlobalScale, "rowwise_global_scale"},
    {TensorKind::kRowwiseGlobalDivisor, "rowwise_global_divisor"},
};

template <typename T, size_t N>
std::string_view Find(const Named<T> (&table)[N], T value) {
  for (const Named<T>& row : table) {
    if (row.value == value) return row.name;
  }
  return "unspecified";
}

template <typename T, size_t N>
std::optional<T> Parse(const Named<T> (&table)[N], std::string_view name) {
  for (const Named<T>& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(DType t) { return Find(kDTypes, t); }
std::string_view Name(Usage u) { return Find(kUsages, u); }
std::string_view Name(NonFinite n) { return Find(kNonFinites, n); }
std::string_view Name(Rounding r) { return Find(kRoundings, r); }
std::string_view Name(ScaleRule r) { return Find(kScaleRules, r); }
std::string_view Name(FourOverSix f) { return Find(kFourOverSixes, f); }
std::string_view Name(AmaxDomain d) { return Find(kDomains, d); }
std::string_view Name(HistoryRule r) { return Find(kHistoryRules, r); }
std::string_view Name(Layout l) { return Find(kLayouts, l); }
std::string_view Name(TensorKind k) { return Find(kKinds, k); }
std::string_view Name(Format f) {
  const FormatSpec* row = FindFormat(f);
  return row ? row->name : "unspecified";
}

std::optional<DType> ParseDType(std::string_view name) {
  return Parse(kDTypes, name);
}
std::optional<Usage> ParseUsage(std::string_view name) {
  return Parse(kUsages, name);
}
std::optional<NonFinite> ParseNonFinite(std::string_view name) {
  return Parse(kNonFinites, name);
}
std::optional<Rounding> ParseRounding(std::string_view name) {
  return Parse(kRoundings, name);
}
std::optional<ScaleRule> ParseScaleRule(std::string_view name) {
  return Parse(kScaleRules, name);
}
std::optional<FourOverSix> ParseFourOverSix(std::string_view name) {
  return Parse(kFourOverSixes, name);
}
std::optional<AmaxDomain> ParseAmaxDomain(std::string_view name) {
  return Parse(kDomains, name);
}
std::optional<HistoryRule> ParseHistoryRule(std::string_view name) {
  return Parse(kHistoryRules, name);
}
std::optional<Layout> ParseLayout(std::string_view name) {
  return Parse(kLayouts, name);
}
std::optional<Format> ParseFormat(std::string_view name) {
  for (const FormatSpec& row : kFormats) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

}  // namespace quantd
