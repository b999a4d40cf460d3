// Implements `quantctl roundtrip`.
#include <optional>
#include <utility>

#include "client/quantctl/commands.h"
#include "client/quantctl/tensor_math.h"
#include "client/tensors/piece_work.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

absl::StatusOr<QuantizedTensor> Quantize(const TensorCalls& trip,
                                         const QuantizeOptions& how,
                                         Record* r) {
  auto result =
      QuantizeInPieces(trip.client, trip.tensor.desc, trip.tensor.read, how,
                       trip.pieces, CallOf(trip.options));
  if (!result.ok()) return result.status();
  Credit(*result, r);
  return QuantizedTensor::FromResult(trip.tensor.desc, how, *std::move(result));
}

// The SQNR of a copy. Reads the tensor again piece by piece, so that only one
// piece is in memory.
absl::StatusOr<double> SqnrOf(const TensorCalls& trip, const QuantizedTensor& q,
                              Usage copy, Record* r) {
  const DType from = trip.tensor.desc.dtype;
  const DType to = trip.options.dtype == DType::kUnspecified
                       ? DType::kF32
                       : trip.options.dtype;
  const auto plan = MakeQuantizePlan(q.desc(), q.options());
  if (!plan.ok()) return plan.status();
  PieceOptions pieces = trip.pieces;
  pieces.progress = nullptr;
  client::SquareSums sums;
  const auto status = DequantizeInPieces(
      trip.client, q, copy, to,
      [&](const Shard& place, const Result& decoded) -> absl::Status {
        Credit(decoded, r);
        const auto original = client::Read(trip.client, trip.tensor.read,
                                           plan->cols(), SizeOf(from), place);
        if (!original.ok()) return original.status();
        sums.Add(from, original->bytes(), to,
                 decoded.bytes(TensorKind::kDequantized));
        return absl::OkStatus();
      },
      pieces, CallOf(trip.options));
  if (!status.ok()) return status;
  return sums.sqnr_db();
}

// A quantization with other options, to compare the copies with. It is made on
// first use.
class Comparison {
 public:
  Comparison(const TensorCalls& trip, QuantizeOptions how, Record* r)
      : trip_(trip), how_(std::move(how)), record_(r) {
    // The first quantization has already computed these.
    how_.statistics = how_.dbias = how_.want_amax = false;
    how_.dbias_dtype = DType::kUnspecified;
    trip_.pieces.progress = nullptr;
  }
  absl::StatusOr<double> SqnrOf(Usage copy) {
    if (!made_) {
      auto made = Quantize(trip_, how_, record_);
      if (!made.ok()) return made.status();
      made_ = *std::move(made);
    }
    return quantctl::SqnrOf(trip_, *made_, copy, record_);
  }

 private:
  TensorCalls trip_;
  QuantizeOptions how_;
  Record* record_;
  std::optional<QuantizedTensor> made_;
};

// Quantizes, decodes and compares. With RHT, also computes the SQNR without
// RHT, which shows the effect of the rotation. If the amax was estimated or
// given, also computes the SQNR with the computed amax, which separates its
// effect from that of the rotation.
absl::Status Roundtrip(const TensorCalls& trip, Record* r) {
  const Timer timer;
  QuantizeOptions how = trip.options.quantize;
  const bool estimated = how.nvfp4.amax_estimation_scale.value_or(0) != 0;
  // Statistics show how many values an estimated amax clips.
  how.statistics |= estimated;
  const auto q = Quantize(trip, how, r);
  if (!q.ok()) return q.status();
  r->bytes_out = q->size_bytes();
  r->copies = CopiesOf(*q);
  for (CopyRow& row : r->copies) {
    const auto sqnr = SqnrOf(trip, *q, *ParseUsage(row.name), r);
    if (!sqnr.ok()) return sqnr.status();
    row.sqnr_db = *sqnr;
  }
  r->seconds = timer.seconds();

  QuantizeOptions computed = how;
  if (estimated) computed.nvfp4.amax_estimation_scale = 0;
  // The given amaxes are dropped: `computed` is to compute them, and they do
  // not apply to the values of `plain`, which are not rotated.
  computed.rowwise_amax.clear();
  computed.columnwise_amax.clear();
  QuantizeOptions plain = computed;
  plain.rht = {};
  plain.nvfp4.amax_estimation_scale.reset();
  Comparison with_computed(trip, computed, r);
  Comparison without_rht(trip, plain, r);
  for (CopyRow& row : r->copies) {
    const Usage usage = *ParseUsage(row.name);
    const bool columnwise = usage == Usage::kColumnwise;
    const auto copy = columnwise ? q->columnwise() : q->rowwise();
    if (!copy->rotated) continue;
    if (estimated ||
        !(columnwise ? how.columnwise_amax : how.rowwise_amax).empty()) {
      const auto sqnr = with_computed.SqnrOf(usage);
      if (!sqnr.ok()) return sqnr.status();
      row.sqnr_db_computed_amax = *sqnr;
    }
    const auto sqnr = without_rht.SqnrOf(usage);
    if (!sqnr.ok()) return sqnr.status();
    row.sqnr_db_without_rht = *sqnr;
  }
  return absl::OkStatus();
}

// Differences up to a hundredth of a decibel do not count.
bool Lower(double sqnr, double than) { return sqnr < than - 0.01; }

void ExplainAmax(Report* report) {
  std::vector<std::string> lower;
  for (const Record& r : report->tensors) {
    for (const CopyRow& c : r.copies) {
      if (!c.sqnr_db_computed_amax || !c.sqnr_db) continue;
      if (!Lower(*c.sqnr_db, *c.sqnr_db_computed_amax)) continue;
      std::string clipped;
      if (c.statistics && c.statistics->clipped > 0) {
        clipped = fmt::format("; {} of {} values clipped",
                              c.statistics->clipped, c.statistics->elements);
      }
      lower.push_back(fmt::format("{} ({}, {:.2f} to {:.2f} dB{})", r.name,
                                  c.name, *c.sqnr_db_computed_amax, *c.sqnr_db,
                                  clipped));
    }
  }
  if (lower.empty()) return;
  report->notes.push_back(
      fmt::format("the estimated or given amax, and not the rotation, lowers "
                  "the SQNR of {}. Too small an amax clips values, too large "
                  "an amax leaves codes unused.",
                  fmt::join(lower, ", ")));
}

void ExplainRht(Format format, Report* report) {
  std::vector<std::string> lower;
  for (const Record& r : report->tensors) {
    for (const CopyRow& c : r.copies) {
      if (!c.sqnr_db_without_rht || !c.sqnr_db) continue;
      // The SQNR with the computed amax of the rotated values.
      const double rotated = c.sqnr_db_computed_amax.value_or(*c.sqnr_db);
      if (!Lower(rotated, *c.sqnr_db_without_rht)) continue;
      lower.push_back(fmt::format("{} ({}, {:.2f} to {:.2f} dB)", r.name,
                                  c.name, *c.sqnr_db_without_rht, rotated));
    }
  }
  if (lower.empty()) return;
  report->notes.push_back(
      fmt::format("RHT lowers the SQNR of {}. This is expected if there are a "
                  "few outliers: every {} elements have their own scale, so "
                  "that an outlier affects only its block, in which RHT "
                  "spreads it over all elements. RHT is meant for gradients in "
                  "training; do not use it for weights and checkpoints.",
                  fmt::join(lower, ", "), FindFormat(format)->block));
}

}  // namespace

int RunRoundtrip(const Options& options) {
  const auto input = OpenToQuantize(options);
  if (!input.ok()) return FailToOpen(options, input.status());
  Report report = ReportOf("roundtrip", options, *input);
  const int code = ForEachTensor(options, *input, &report, Roundtrip);
  if (code != kOk) return code;
  ExplainAmax(&report);
  ExplainRht(options.quantize.format, &report);
  return Finish(options, &report);
}

}  // namespace quantd::quantctl
