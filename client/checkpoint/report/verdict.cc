#include "client/checkpoint/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"
#include "kernels/arith/copy_address.h"
#include "kernels/plan/geometry.h"

namespace quantd::checkpoint {
namespace {

// Weights below this are negligible in any product, and no format has a scale
// for them.
constexpr double kNearZero = 1e-30;

double NoiseOf(std::optional<WeightFormat> format) {
  return format ? std::pow(10, -UsualDb(*format) / 10) : 0;
}

// A weight has outliers if its largest magnitude is above this, in units of its
// root mean square. For a million normally distributed values it is about 5.
constexpr double kOutlier = 12;
// A share of new zeros that needs an explanation. NVFP4 rounds 7 % of normally
// distributed values to zero.
constexpr double kManyZeros = 0.2;
constexpr double kManySubnormals = 0.1;
constexpr double kSmallSibling = 8;
constexpr double kClipped = 0.9;
// A difference in dB from the format's usual SQNR that needs no explanation.
constexpr double kNear = 1;
// The most that the SQNR of a row is below the usual one. Each number of a row
// may be as far from the nearest code as possible: then FP8 has 24.1 dB, NVFP4
// 14.4 dB and MXFP4 13.4 dB, which is up to 7.4 dB less.
constexpr double kRowMargin = 8;

bool HasBadRow(const TensorDifference& d) {
  return (d.format_a || d.format_b) && d.worst_row >= 0 &&
         !(d.worst_row_db >= LeastRowDb(d));
}

std::string Percent(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

// The effect of outliers on the values that share their scale.
std::string_view SharersOf(const WeightLayout& layout) {
  const BlockShape block = BlockOf(layout);
  if (block.rows == 0) return "all values share one scale";
  if (block.cols == 0) return "the values of a row share one scale";
  return layout.global != Global::kNone
             ? "they make the other values of their blocks coarser, and small "
               "block scales lose precision"
             : "they make the other values of their blocks coarser";
}

constexpr int kBias = 127;
constexpr int kFirstNormalE4M3 = 8;

int CodeOf(ScaleKind kind, std::string_view dtype,
           absl::Span<const std::byte> bytes, size_t i) {
  if (kind != ScaleKind::kExponent) return static_cast<uint8_t>(bytes[i]);
  const float value = NumberAt(dtype, bytes, i);
  if (!std::isfinite(value)) return 255;
  return value == 0 ? 0 : std::clamp(std::ilogb(value) + kBias, 0, 255);
}

double Share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

// ModelVerdict.FormatsGiveNormalNumbersTheirUsualDb measures these numbers.
double UsualDb(WeightFormat format) {
  switch (format) {
    case WeightFormat::kNvfp4:
      return 20.4;
    case WeightFormat::kNvfp4FourOverSix:
      return 21.2;
    case WeightFormat::kNvfp4Search:
      return 21.8;
    case WeightFormat::kFp8:
    case WeightFormat::kFp8Dynamic:
    case WeightFormat::kFp8Block:
    case WeightFormat::kMxfp8:
      return 31.5;
    case WeightFormat::kMxfp4:
      return 18.8;
    case WeightFormat::kBf16:
      return 55.6;
  }
  return 0;
}

double UsualDb(const TensorDifference& d) {
  const double noise = NoiseOf(d.format_a) + NoiseOf(d.format_b);
  return noise == 0 ? UsualDb(WeightFormat::kMxfp4) : -10 * std::log10(noise);
}

double LeastDb(const TensorDifference& d) { return UsualDb(d) / 2; }

double LeastRowDb(const TensorDifference& d) { return UsualDb(d) - kRowMargin; }

bool IsBelow(const TensorDifference& d, std::optional<double> least) {
  if (d.equal()) return false;
  if (d.not_finite > 0) return true;
  if (!least && (d.altered > 0 || !d.wrong.empty())) return true;
  if (!least && d.amax < kNearZero && d.amax_b < kNearZero) return false;
  return !(d.sqnr_db >= least.value_or(LeastDb(d))) || (!least && HasBadRow(d));
}

DifferenceSummary SummaryOf(const ModelDifference& difference,
                            std::optional<double> least) {
  DifferenceSummary out;
  size_t finite = 0;
  for (const TensorDifference& d : difference.tensors) {
    ++(d.equal() ? out.equal : out.differing);
    out.below += IsBelow(d, least);
    if (d.equal() || !std::isfinite(d.sqnr_db)) continue;
    ++finite;
    out.mean_db += d.sqnr_db;
    out.usual_db += UsualDb(d);
    if (out.worst == nullptr || d.sqnr_db < out.worst->sqnr_db) out.worst = &d;
  }
  if (finite == 0) return out;
  out.mean_db /= static_cast<double>(finite);
  out.usual_db /= static_cast<double>(finite);
  return out;
}

double WholeDb(const ModelDifference& difference) {
  double signal = 0;
  double noise = 0;
  for (const TensorDifference& d : difference.tensors) {
    signal += d.signal;
    noise += d.noise;
  }
  return noise == 0 ? std::numeric_limits<double>::infinity()
                    : 10 * std::log10(signal / noise);
}

std::string VerdictText(const ModelDifference& difference,
                        std::optional<double> least) {
  const TensorDifference* lowest = nullptr;
  const DifferenceSummary summary = SummaryOf(difference, least);
  const auto over = [&](const TensorDifference& d) {
    return d.not_finite > 0 ? -std::numeric_limits<double>::infinity()
                            : d.sqnr_db - least.value_or(LeastDb(d));
  };
  for (const TensorDifference& d : difference.tensors) {
    if (IsBelow(d, least) && (lowest == nullptr || over(d) < over(*lowest))) {
      lowest = &d;
    }
  }
  const std::string floor = least ? fmt::format("{} dB", *least)
                            : lowest == nullptr
                                ? "half the usual SQNR of their formats"
                                : "what their formats give";
  const size_t untold =
      difference.only_a.size() + difference.not_compared.size();
  std::string rest =
      untold == 0
          ? ""
          : fmt::format("; {} tensor{} of the first model {} not compared",
                        untold, untold == 1 ? "" : "s",
                        untold == 1 ? "was" : "were");
  if (const size_t more = TensorsAdded(difference); more > 0) {
    rest += fmt::format("; {} tensor{} only in the second model", more,
                        more == 1 ? " is" : "s are");
  }
  if (std::ranges::any_of(difference.tensors, [](const TensorDifference& d) {
        return d.format_a.has_value() || d.format_b.has_value();
      })) {
    rest += "; config.json was not checked: lint does that";
  }
  if (lowest == nullptr) {
    return fmt::format("none of the {} tensors that differ is below {}{}",
                       summary.differing, floor, rest);
  }
  const std::string& of = lowest->format_b ? lowest->kind_b : lowest->kind_a;
  const std::string what =
      lowest->not_finite > 0
          ? fmt::format(
                "{} values that are NaN, or infinite in one of the models",
                lowest->not_finite)
      : least ? fmt::format("{:.2f} dB", lowest->sqnr_db)
      : lowest->altered > 0
          ? fmt::format(
                "{:.2f} dB: {} of its numbers changed, although it is "
                "not quantized",
                lowest->sqnr_db, lowest->altered)
      : HasBadRow(*lowest) && lowest->sqnr_db >= LeastDb(*lowest)
          ? fmt::format(
                "{:.2f} dB, but only {:.2f} dB in row {}, where {} has "
                "at least {:.1f} dB",
                lowest->sqnr_db, lowest->worst_row_db, lowest->worst_row, of,
                LeastRowDb(*lowest))
      : !lowest->wrong.empty()
          ? fmt::format("{:.2f} dB: {}", lowest->sqnr_db, lowest->wrong)
          : fmt::format("{:.2f} dB, where {} usually has {:.1f} dB",
                        lowest->sqnr_db, of, UsualDb(*lowest));
  return fmt::format(
      "{} of the {} tensors that differ {} below {}; the worst is {} with {}{}",
      summary.below, summary.differing, summary.below == 1 ? "is" : "are",
      floor, lowest->name, what, rest);
}

std::string CauseOf(const TensorDifference& d, const Surroundings& around) {
  const double count =
      static_cast<double>(d.rows) * static_cast<double>(d.cols);
  if (d.not_finite > 0) {
    return fmt::format("{} values are NaN, or infinite in one of the models",
                       d.not_finite);
  }
  if (d.sqnr_db < 1 && d.cosine < 0.5) {
    return fmt::format(
        "the cosine is {:.2f}: this is another tensor, or its parts are read "
        "in the wrong order",
        d.cosine);
  }
  if (d.amax_b < kClipped * d.amax) {
    return fmt::format("clipped: its largest value {:.4g} became {:.4g}",
                       d.amax, d.amax_b);
  }
  if (!d.wrong.empty()) return d.wrong;
  if (d.altered > 0) {
    return fmt::format(
        "{} of its numbers changed, although it is not quantized", d.altered);
  }
  if (around.layout == nullptr) return "stored with lower precision";
  if (around.group_amax > kSmallSibling * d.amax && d.amax > 0) {
    return fmt::format(
        "it shares a scale with {}, whose largest value is {:.3g} times as "
        "large",
        around.largest, around.group_amax / d.amax);
  }
  const double crest = d.rms > 0 ? d.amax / d.rms : 0;
  if (crest > kOutlier) {
    return fmt::format(
        "outliers: its largest value is {:.3g} times the root mean square (5 "
        "is usual), and {}",
        crest, SharersOf(*around.layout));
  }
  if (const double low =
          around.scales->subnormal_share() + around.scales->zero_share();
      low > kManySubnormals) {
    return fmt::format(
        "{} of its block scales are so small that they lose precision",
        Percent(low));
  }
  if (const double lost = static_cast<double>(d.lost) / count;
      lost > kManyZeros) {
    return fmt::format(
        "{} of its values became zero: most are far smaller than the largest "
        "value of their block",
        Percent(lost));
  }
  const double usual = UsualDb(around.layout->format);
  const double over = d.sqnr_db - usual;
  const std::string_view format = Name(around.layout->format);
  if (std::abs(over) < kNear) {
    return fmt::format("as expected for {}: {:.2f} dB {} the usual {:.1f} dB",
                       format, std::abs(over), over < 0 ? "below" : "above",
                       usual);
  }
  return fmt::format(
      "expected for {} with this distribution: the largest value is {:.3g} "
      "times the root mean square, and {} became zero",
      format, crest, Percent(static_cast<double>(d.lost) / count));
}

std::string_view Name(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::kE4M3:
      return "E4M3";
    case ScaleKind::kE8M0:
      return "E8M0";
    case ScaleKind::kExponent:
      break;
  }
  return "exponent";
}

void ScaleCodes::Add(const ScaleCodes& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
}

uint64_t ScaleCodes::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

int ScaleCodes::median() const {
  const uint64_t all = total();
  uint64_t seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    if (2 * seen >= all) return static_cast<int>(i);
  }
  return 0;
}

double ScaleCodes::zero_share() const {
  // E8M0 has no zero: its smallest code is a power of two.
  return kind == ScaleKind::kE8M0 ? 0 : Share(counts[0], total());
}

double ScaleCodes::subnormal_share() const {
  if (kind != ScaleKind::kE4M3) return 0;
  return Share(std::accumulate(counts.begin() + 1,
                               counts.begin() + kFirstNormalE4M3, uint64_t{0}),
               total());
}

std::string ValueText(ScaleKind kind, int code) {
  if (kind != ScaleKind::kE4M3) return fmt::format("2^{}", code - kBias);
  return fmt::format("{:.3g}", ValuesOfE4M3()[static_cast<uint8_t>(code)]);
}

absl::StatusOr<ScaleCodes> CountScales(const Model& model,
                                       const StoredWeight& w) {
  const ModelTensor& part = *w.part(PartSource::kScales);
  const std::string& dtype = part.stored.dtype;
  ScaleCodes out;
  out.kind = dtype == "F8_E4M3"                    ? ScaleKind::kE4M3
             : dtype == "U8" || dtype == "F8_E8M0" ? ScaleKind::kE8M0
                                                   : ScaleKind::kExponent;
  const auto read = model.ReadAll(part);
  if (!read.ok()) return read.status();
  const std::vector<std::byte>& bytes = *read;
  const auto element = static_cast<size_t>(safetensors::BitsOf(dtype) / 8);
  if (!w.layout->swizzled) {
    for (size_t i = 0; i < bytes.size() / element; ++i) {
      ++out.counts[static_cast<size_t>(CodeOf(out.kind, dtype, bytes, i))];
    }
    return out;
  }
  const BlockShape block = BlockOf(*w.layout);
  const int64_t across = CeilDiv(w.cols, block.cols);
  for (int64_t i = 0; i < CeilDiv(w.rows, block.rows); ++i) {
    for (int64_t j = 0; j < across; ++j) {
      const auto at = static_cast<size_t>(SwizzledIndex(i, j, across));
      ++out.counts[static_cast<size_t>(CodeOf(out.kind, dtype, bytes, at))];
    }
  }
  return out;
}

}  // namespace quantd::checkpoint
