#include "client/checkpoint/report/cause.h"

#include <cmath>

#include "client/checkpoint/report/verdict.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The largest magnitude from which a weight has outliers, in units of the rms.
// Among a million normal numbers the largest is at five.
constexpr double kOutlier = 12;
// Share of zeros; NVFP4 makes 7 % of normal numbers zero.
constexpr double kManyZeros = 0.2;
constexpr double kManySubnormals = 0.1;
constexpr double kSmallSibling = 8;
constexpr double kClipped = 0.9;
// Decibels between a weight and normal numbers that need no explanation.
constexpr double kNear = 1;

std::string Percent(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

// Names what shares the scale with a large number and so becomes coarser.
std::string_view SharersOf(const WeightLayout& layout) {
  const BlockShape block = BlockOf(layout);
  if (block.rows == 0) return "all share one scale";
  if (block.cols == 0) return "its row shares one scale";
  return layout.global != Global::kNone
             ? "its block loses the rest, and the scales of small blocks lose "
               "digits"
             : "its block loses the rest";
}

}  // namespace

std::string CauseOf(const TensorDifference& d, const Surroundings& around) {
  const double count =
      static_cast<double>(d.rows) * static_cast<double>(d.cols);
  if (d.not_finite > 0) {
    return fmt::format("{} numbers are NaN or infinite in one of the two",
                       d.not_finite);
  }
  if (d.sqnr_db < 1 && d.cosine < 0.5) {
    return fmt::format(
        "a cosine of {:.2f}: another tensor, or its parts are "
        "read in the wrong order",
        d.cosine);
  }
  if (d.amax_b < kClipped * d.amax) {
    return fmt::format(
        "cut off: its largest weight is {:.4g} and became {:.4g}", d.amax,
        d.amax_b);
  }
  if (around.layout == nullptr) return "stored with fewer digits";
  if (around.group_amax > kSmallSibling * d.amax && d.amax > 0) {
    return fmt::format(
        "shares a scale with {}, whose largest weight is {:.3g} times its own",
        around.largest, around.group_amax / d.amax);
  }
  const double crest = d.rms > 0 ? d.amax / d.rms : 0;
  if (crest > kOutlier) {
    return fmt::format(
        "outliers: its largest weight is {:.3g} times the rms (normal numbers: "
        "5), and {}",
        crest, SharersOf(*around.layout));
  }
  if (const double low =
          around.scales->subnormal_share() + around.scales->zero_share();
      low > kManySubnormals) {
    return fmt::format(
        "{} of its block scales are too small to have all their "
        "digits",
        Percent(low));
  }
  if (const double lost = static_cast<double>(d.lost) / count;
      lost > kManyZeros) {
    return fmt::format(
        "{} of its weights became zero: most are far smaller "
        "than the largest of their block",
        Percent(lost));
  }
  const double usual = UsualDb(around.layout->format);
  const double over = d.sqnr_db - usual;
  const std::string_view format = Name(around.layout->format);
  if (std::abs(over) < kNear) {
    return fmt::format("usual for {}: {:.2f} dB {} {:.1f}", format,
                       std::abs(over), over < 0 ? "below" : "above", usual);
  }
  return fmt::format(
      "what {} does to weights of this spread: the largest is "
      "{:.3g} times the rms, and {} became zero",
      format, crest, Percent(static_cast<double>(d.lost) / count));
}

}  // namespace quantd::checkpoint
