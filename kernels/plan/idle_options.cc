#include "kernels/plan/idle_options.h"

#include <string>
#include <string_view>

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/support.h"
#include "quantd/field_error.h"
#include "quantd/format.h"

namespace quantd {
namespace {

// Refuses options about copies if none are made.
absl::Status CheckCopies(const QuantizeOptions& o) {
  if (o.usage != Usage::kNone) return absl::OkStatus();
  uint32_t about = kOptGrouped | kOptDbias;
  if (o.fp8.history) about |= kOptGivenScale | kOptHistory;
  const uint32_t idle = UsedOptions(o) & ~about;
  for (const OptionSpec& spec : Options()) {
    if ((idle & spec.option) == 0) continue;
    return FieldError(spec.field,
                      fmt::format("{} only if a copy is made", spec.name),
                      "usage none");
  }
  return absl::OkStatus();
}

absl::Status CheckRotation(const QuantizeOptions& o) {
  if (o.rht.rowwise && !HasRowwise(o.usage)) {
    return FieldError("rht.rowwise", "a rowwise copy to rotate",
                      fmt::format("usage {}", Name(o.usage)));
  }
  if (o.rht.columnwise && !HasColumnwise(o.usage)) {
    return FieldError("rht.columnwise", "a columnwise copy to rotate",
                      fmt::format("usage {}", Name(o.usage)));
  }
  if (o.rht.rowwise || o.rht.columnwise) return absl::OkStatus();
  return CheckNoRotation(o.rht.dimension, o.rht.sign_mask,
                         "rowwise or columnwise, the copy to rotate");
}

absl::Status CheckAmaxes(const QuantizeOptions& o) {
  const AmaxSource sources[] = {SourceOfAmax(o, false), SourceOfAmax(o, true)};
  for (const bool columnwise : {false, true}) {
    const auto& given = columnwise ? o.columnwise_amax : o.rowwise_amax;
    if (given.empty() || given.data() == sources[0].given.data() ||
        given.data() == sources[1].given.data()) {
      continue;
    }
    return FieldError(
        columnwise ? "given_amax.columnwise" : "given_amax.rowwise",
        "the amax of a copy that is made",
        fmt::format("usage {}", Name(o.usage)));
  }
  if (Estimates(o) && !MayEstimate(o)) {
    return FieldError("amax_estimation_scale",
                      "a rotated copy whose amax is not given",
                      "given_amax for every rotated copy");
  }
  return absl::OkStatus();
}

absl::Status CheckRounding(const QuantizeOptions& o, int64_t cols) {
  if (o.rounding == Rounding::kStochastic) return absl::OkStatus();
  constexpr std::string_view kGot = "rounding nearest";
  if (o.stochastic.seed != 0 || o.stochastic.seed_offset != 0) {
    return FieldError("stochastic", "a seed only with stochastic rounding",
                      std::string(kGot));
  }
  const ShardPosition& p = o.shard;
  if (p.row_offset != 0 || p.column_offset != 0 ||
      (p.total_columns != 0 && p.total_columns != cols)) {
    return FieldError("shard", "a position only with stochastic rounding",
                      std::string(kGot));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIdleOptions(const QuantizeOptions& o, int64_t cols) {
  for (const absl::Status& status : {CheckRotation(o), CheckCopies(o),
                                     CheckAmaxes(o), CheckRounding(o, cols)}) {
    if (!status.ok()) return status;
  }
  if (!o.dbias && o.dbias_dtype != DType::kUnspecified) {
    return FieldError("dbias_dtype", "dbias_dtype only together with dbias",
                      "no dbias");
  }
  return absl::OkStatus();
}

absl::Status CheckNoRotation(int dimension, const std::optional<SignMask>& mask,
                             std::string_view expected) {
  if (dimension == RhtOptions().dimension && !mask) return absl::OkStatus();
  return FieldError("rht", std::string(expected),
                    mask ? "a sign mask alone" : "a dimension alone");
}

}  // namespace quantd
