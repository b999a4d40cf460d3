#include "kernels/format.h"

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
};
constexpr Named<NonFinite> kNonFinites[] = {
    {NonFinite::kIgnore, "ignore"},
    {NonFinite::kPropagate, "propagate"},
    {NonFinite::kReject, "reject"},
};
constexpr Named<Layout> kLayouts[] = {{Layout::kLinear, "linear"}};
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
std::optional<Format> ParseFormat(std::string_view name) {
  for (const FormatSpec& row : kFormats) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

}  // namespace quantd
