#include "client/checkpoint/report/cause.h"

#include <cmath>

#include "client/checkpoint/report/verdict.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

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

}  // namespace

std::string CauseOf(const TensorDifference& d, const Surroundings& around) {
  const double count =
      static_cast<double>(d.rows) * static_cast<double>(d.cols);
  if (d.not_finite > 0) {
    return fmt::format("{} values are NaN or infinite in one of the two models",
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

}  // namespace quantd::checkpoint
