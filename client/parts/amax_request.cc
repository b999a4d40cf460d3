#include "client/parts/amax_request.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/plan/amax_source.h"

namespace quantd::client {

TensorKind AmaxKindOf(const QuantizeOptions& o, bool columnwise) {
  const bool rotated =
      (columnwise ? o.rht.columnwise : o.rht.rowwise) && !Estimates(o);
  if (columnwise) {
    return rotated ? TensorKind::kColumnwiseRhtAmax
                   : TensorKind::kColumnwiseAmax;
  }
  return rotated ? TensorKind::kRowwiseRhtAmax : TensorKind::kRowwiseAmax;
}

RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& o) {
  RhtAmaxOptions amax;
  for (const bool columnwise : {false, true}) {
    if (!(columnwise ? HasColumnwise(o.usage) : HasRowwise(o.usage))) continue;
    const TensorKind kind = AmaxKindOf(o, columnwise);
    amax.rowwise |= kind == TensorKind::kRowwiseAmax;
    amax.rowwise_rht |= kind == TensorKind::kRowwiseRhtAmax;
    amax.columnwise |= kind == TensorKind::kColumnwiseAmax;
    amax.columnwise_rht |= kind == TensorKind::kColumnwiseRhtAmax;
  }
  if (amax.rowwise_rht || amax.columnwise_rht) {
    amax.rht_dimension = o.rht.dimension;
    amax.sign_mask = o.rht.sign_mask;
  }
  amax.non_finite = o.non_finite;
  amax.domain = HasAmaxOfLines(*FindFormat(o.format), o.form)
                    ? AmaxDomain::kRow
                    : AmaxDomain::kTensor;
  return amax;
}

float LargerAmax(float a, float b) {
  // NaN must not vanish.
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return std::max(a, b);
}

void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values) {
  const size_t first = whole.size() == 1 ? 0 : static_cast<size_t>(line);
  for (size_t i = 0; i < values.size() && first + i < whole.size(); ++i) {
    float& a = whole[first + i];
    a = LargerAmax(a, values[i]);
  }
}

}  // namespace quantd::client
