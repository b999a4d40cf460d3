#include "client/checkpoint/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Weights below this are negligible in any product, and no format has a scale
// for them.
constexpr double kNearZero = 1e-30;

double NoiseOf(std::optional<WeightFormat> format) {
  return format ? std::pow(10, -UsualDb(*format) / 10) : 0;
}

}  // namespace

// ModelVerdict.FormatsGiveNormalNumbersTheirUsualDb measures these numbers.
double UsualDb(WeightFormat format) {
  switch (format) {
    case WeightFormat::kNvfp4:
      return 20.4;
    case WeightFormat::kNvfp4FourOverSix:
      return 21.2;
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

bool IsBelow(const TensorDifference& d, std::optional<double> least) {
  if (d.equal()) return false;
  if (d.not_finite > 0) return true;
  if (!least && d.amax < kNearZero && d.amax_b < kNearZero) return false;
  return !(d.sqnr_db >= least.value_or(LeastDb(d)));
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
  size_t below = 0;
  size_t differing = 0;
  const auto over = [&](const TensorDifference& d) {
    return d.not_finite > 0 ? -std::numeric_limits<double>::infinity()
                            : d.sqnr_db - least.value_or(LeastDb(d));
  };
  for (const TensorDifference& d : difference.tensors) {
    differing += !d.equal();
    if (!IsBelow(d, least)) continue;
    ++below;
    if (lowest == nullptr || over(d) < over(*lowest)) lowest = &d;
  }
  const std::string floor = least ? fmt::format("{} dB", *least)
                                  : "half the usual SQNR of their formats";
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
  if (std::any_of(difference.tensors.begin(), difference.tensors.end(),
                  [](const TensorDifference& d) {
                    return d.format_a.has_value() || d.format_b.has_value();
                  })) {
    rest += "; config.json was not checked: lint does that";
  }
  if (lowest == nullptr) {
    return fmt::format("none of the {} tensors that differ is below {}{}",
                       differing, floor, rest);
  }
  const std::string of = lowest->format_b   ? lowest->kind_b
                         : lowest->format_a ? lowest->kind_a
                                            : "mxfp4, the coarsest format,";
  const std::string what =
      lowest->not_finite > 0
          ? fmt::format(
                "{} values that are NaN or infinite in one of the two models",
                lowest->not_finite)
      : least ? fmt::format("{:.2f} dB", lowest->sqnr_db)
              : fmt::format("{:.2f} dB, where {} usually has {:.1f} dB",
                            lowest->sqnr_db, of, UsualDb(*lowest));
  return fmt::format(
      "{} of the {} tensors that differ {} below {}; the worst is {} with {}{}",
      below, differing, below == 1 ? "is" : "are", floor, lowest->name, what,
      rest);
}

}  // namespace quantd::checkpoint
