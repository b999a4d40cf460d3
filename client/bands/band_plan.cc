#include "client/bands/band_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/plan/amax_source.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/shards.h"

namespace quantd::client {
namespace {

// Limit of an amax list: each value lengthens the message before its payload.
constexpr int64_t kMostListed = 16384;

TensorDesc DescOf(const Plan& plan, const Band& band) {
  return {plan.tensor().dtype, {band.rows, plan.cols()}};
}

bool OfLines(const QuantizeOptions& o) {
  return HasAmaxOfLines(*FindFormat(o.format), o.form);
}

// Whether this copy has a computed amax that covers several bands. A row never
// spans two bands, so an amax for each row does not.
bool Spans(const QuantizeOptions& o, bool columnwise) {
  const AmaxSource source = SourceOfAmax(o, columnwise);
  return source.computed() &&
         (columnwise || source.kind != AmaxSource::Kind::kLines);
}

std::string_view WhyWholeOf(const Plan& plan, const QuantizeOptions& o) {
  if (plan.grouped()) return "groups";
  if (o.fp8.history) return "a history, to which all rows belong";
  if (o.dbias) return "dbias, whose sums have an order";
  if (o.statistics) return "statistics, whose sums have an order";
  if (HasColumnwise(o.usage) && OfLines(o) && plan.cols() > kMostListed) {
    return "an amax for each of many columns";
  }
  return {};
}

std::string_view WhyWholeOf(const Plan& plan, const DequantizeOptions& o) {
  if (plan.grouped()) return "groups";
  if (o.rotated_dimension != 0) return "a rotated operand with its padding";
  if (HasColumnwise(o.usage) && HasAmaxOfLines(*FindFormat(o.format), o.form) &&
      plan.cols() > kMostListed) {
    return "an amax for each of many columns";
  }
  return {};
}

std::string_view WhyWholeOf(const Plan& plan, const RhtAmaxOptions&) {
  return plan.grouped() ? "groups" : "";
}

std::string_view WhyWholeOf(const Plan&, const ApplyRhtOptions&) { return {}; }

// The most rows of a band whose amax list still fits into its request.
int64_t MostRows(const Plan& plan) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  const bool listed = o != nullptr && OfLines(*o) && HasRowwise(o->usage);
  return listed ? kMostListed : std::numeric_limits<int64_t>::max();
}

// The entries of a rowwise amax list that belong to the band.
std::vector<float> RowsOf(const QuantizeOptions& o,
                          const std::vector<float>& amax, const Band& band) {
  if (!OfLines(o) || amax.empty()) return amax;
  const auto first = amax.begin() + band.row;
  return {first, first + band.rows};
}

QuantizeOptions BandOptions(const Plan& plan, QuantizeOptions o,
                            const Band& band, const CopyAmax* amax) {
  if (amax != nullptr) {
    o.rowwise_amax = amax->rowwise;
    o.columnwise_amax = amax->columnwise;
    o.nvfp4.amax_estimation_scale.reset();
  }
  o.rowwise_amax = RowsOf(o, o.rowwise_amax, band);
  if (o.rounding == Rounding::kStochastic) {
    // The whole tensor may itself be a shard of a larger one.
    if (o.shard.total_columns == 0) {
      o.shard.total_columns = o.shard.column_offset + plan.cols();
    }
    o.shard.row_offset += band.row;
  }
  return o;
}

}  // namespace

std::string_view WhyWhole(const Plan& plan) {
  return std::visit([&](const auto& o) { return WhyWholeOf(plan, o); },
                    plan.options());
}

std::vector<Band> CutIntoBands(const Plan& plan, size_t band_bytes) {
  const size_t carried = std::max(plan.input_bytes(), plan.output_bytes());
  const int64_t rows = plan.rows();
  if (band_bytes == 0 || carried <= std::max(kNeverCut, band_bytes) ||
      rows <= kBandRows || !WhyWhole(plan).empty()) {
    return {};
  }
  const double of_row =
      static_cast<double>(carried) / static_cast<double>(rows);
  const auto fit =
      static_cast<int64_t>(static_cast<double>(band_bytes) / of_row);
  const int64_t height = std::max(
      kBandRows, std::min(fit, MostRows(plan)) / kBandRows * kBandRows);
  if (height >= rows) return {};
  std::vector<Band> bands;
  for (int64_t row = 0; row < rows; row += height) {
    bands.push_back({row, std::min(height, rows - row)});
  }
  // The last band's row_offset may exceed its limit. Then its plan is refused.
  if (!PlanOfBand(plan, bands.back()).ok()) return {};
  return bands;
}

namespace {

// Cuts the call into at most `count` bands of equal height.
std::vector<Band> CutInto(const Plan& plan, int64_t count) {
  const size_t carried = std::max(plan.input_bytes(), plan.output_bytes());
  const int64_t rows =
      CeilDiv(CeilDiv(plan.rows(), count), kBandRows) * kBandRows;
  // Half a row is added because a row may take a fractional number of bytes.
  const double bytes = static_cast<double>(carried) /
                       static_cast<double>(plan.rows()) *
                       (static_cast<double>(rows) + 0.5);
  return CutIntoBands(plan, static_cast<size_t>(bytes));
}

}  // namespace

std::vector<Band> CutToFlow(const Plan& plan, size_t bands, int connections,
                            size_t least) {
  const size_t carried = std::max(plan.input_bytes(), plan.output_bytes());
  if (connections < 2 || bands > 2 * static_cast<size_t>(connections) ||
      carried / connections < least) {
    return {};
  }
  return CutInto(plan, connections);
}

bool NeedsAmax(const Plan& plan) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  // If the scale is given, no amax is needed.
  return o != nullptr && o->fp8.scale.empty() &&
         (Spans(*o, false) || Spans(*o, true));
}

absl::StatusOr<Plan> AmaxPlanOf(const Plan& plan, const Band& band) {
  RhtAmaxOptions all = AmaxOptionsOf(std::get<QuantizeOptions>(plan.options()));
  return MakeRhtAmaxPlan(DescOf(plan, band), all);
}

std::vector<Band> CutToMeet(const Plan& plan, size_t band_bytes) {
  std::vector<Band> bands = CutIntoBands(plan, band_bytes);
  if (bands.size() <= kMostMeeting) return bands;
  bands = CutInto(plan, kMostMeeting);
  if (bands.size() > kMostMeeting) bands.clear();
  return bands;
}

absl::StatusOr<Plan> ReducingPlan(const Plan& plan, const Band& band) {
  QuantizeOptions o = std::get<QuantizeOptions>(plan.options());
  o.rowwise_amax.clear();
  o.columnwise_amax.clear();
  // Keeps the server's default estimation scale from overriding the plan.
  if (MayEstimate(o) && !o.nvfp4.amax_estimation_scale) {
    o.nvfp4.amax_estimation_scale = 0;
  }
  return MakeQuantizePlan(DescOf(plan, band),
                          BandOptions(plan, std::move(o), band, nullptr));
}

CopyAmax AmaxOfBand(const Plan& plan, const Band& band, const CopyAmax& whole) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  return {RowsOf(o, whole.rowwise, band), whole.columnwise};
}

absl::StatusOr<Plan> PlanOfBand(const Plan& plan, const Band& band,
                                const CopyAmax* amax) {
  const TensorDesc desc = DescOf(plan, band);
  const Plan::Options& options = plan.options();
  if (const auto* o = std::get_if<DequantizeOptions>(&options)) {
    return MakeDequantizePlan(desc, *o);
  }
  if (const auto* o = std::get_if<RhtAmaxOptions>(&options)) {
    return MakeRhtAmaxPlan(desc, *o);
  }
  if (const auto* o = std::get_if<ApplyRhtOptions>(&options)) {
    return MakeApplyRhtPlan(desc, *o);
  }
  return MakeQuantizePlan(
      desc, BandOptions(plan, std::get<QuantizeOptions>(options), band, amax));
}

}  // namespace quantd::client
