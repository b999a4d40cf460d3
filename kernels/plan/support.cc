#include "kernels/plan/support.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/profile/profile.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

constexpr OptionSpec kOptions[] = {
    {kOptRht, "rht", "rht",
     "random Hadamard transform of the rowwise or columnwise operand, "
     "dimension 16, 32, 64 or 128"},
    {kOptStochastic, "stochastic", "rounding", "stochastic rounding"},
    {kOptRowScaled, "row_scaled", "form.row_scaled",
     "one amax for each row of the operand"},
    {kOptFourOverSix, "four_over_six", "four_over_six",
     "each block mapped to 4 or 6, whichever is better"},
    {kOptScaleSearch, "scale_search", "scale_search",
     "the scale of six with the least squared error of its block"},
    {kOptSwizzled, "swizzled", "form.scale_layout", "scales in 128x4 tiles"},
    {kOptCompact, "compact", "form.compact_scales",
     "one scale for each square, not one for each of its lines"},
    {kOptGivenAmax, "given_amax", "given_amax",
     "an amax in the request, for example one reduced over shards"},
    {kOptEstimation, "estimation", "amax_estimation_scale",
     "the amax after RHT, estimated from the amax before it"},
    {kOptEpsilon, "epsilon", "epsilon", "a lower limit of the amax"},
    {kOptPowerOfTwo, "power_of_two", "power_of_two",
     "scales rounded to powers of two, or not"},
    {kOptGivenScale, "given_scale", "scale", "delayed scaling: a given scale"},
    {kOptHistory, "history", "history",
     "delayed scaling: rolls the amax history and makes the next scale"},
    {kOptScaleRule, "scale_rule", "scale_rule",
     "rule for shared exponents: up, floor, ceil or even"},
    {kOptGrouped, "grouped", "splits", "groups of rows in one payload"},
    {kOptDbias, "dbias", "dbias",
     "sums of the columns, in addition to the codes"},
    {kOptStatistics, "statistics", "statistics",
     "SQNR, largest error, clipped and flushed counts"},
    {kOptProfile, "profile", "profile", "the bytes of another library"},
};

constexpr Conflict kConflicts[] = {
    {kOptFourOverSix, kOptStochastic, false},
    {kOptFourOverSix, kOptRht, false},
    {kOptFourOverSix, kOptRowScaled, true},
    {kOptScaleSearch, kOptFourOverSix, false},
    {kOptScaleSearch, kOptStochastic, false},
    {kOptScaleSearch, kOptRht, false},
    {kOptScaleSearch, kOptRowScaled, true},
    {kOptRowScaled, kOptStochastic, false},
    {kOptRowScaled, kOptRht, false},
    {kOptSwizzled, kOptCompact, false},
    {kOptGivenScale, kOptGivenAmax, false},
    {kOptGivenScale, kOptEpsilon, false},
    {kOptGivenScale, kOptPowerOfTwo, false},
    {kOptProfile, kOptRht, false},
    {kOptProfile, kOptStochastic, false},
    {kOptProfile, kOptRowScaled, false},
    {kOptProfile, kOptFourOverSix, false},
    {kOptProfile, kOptScaleSearch, false},
    {kOptProfile, kOptEstimation, false},
    {kOptProfile, kOptEpsilon, false},
    {kOptProfile, kOptPowerOfTwo, false},
    {kOptProfile, kOptGivenScale, false},
    {kOptProfile, kOptHistory, false},
    {kOptProfile, kOptDbias, false},
};

// An option that is legal only together with another one.
struct Need {
  Option option;
  Option needs;
};
constexpr Need kNeeds[] = {
    {kOptEstimation, kOptRht},
    {kOptHistory, kOptGivenScale},
};

const OptionSpec& Spec(Option option) {
  for (const OptionSpec& spec : kOptions) {
    if (spec.option == option) return spec;
  }
  return kOptions[0];
}

}  // namespace

absl::Span<const OptionSpec> Options() { return kOptions; }
absl::Span<const Conflict> Conflicts() { return kConflicts; }

uint32_t UsedOptions(const QuantizeOptions& o) {
  uint32_t used = 0;
  const auto add = [&](bool wanted, Option option) {
    if (wanted) used |= option;
  };
  add(o.rht.rowwise || o.rht.columnwise, kOptRht);
  add(o.rounding == Rounding::kStochastic, kOptStochastic);
  add(o.form.row_scaled, kOptRowScaled);
  add(o.nvfp4.four_over_six != FourOverSix::kOff, kOptFourOverSix);
  add(o.nvfp4.scale_search, kOptScaleSearch);
  add(o.form.scale_layout == Layout::kSwizzled, kOptSwizzled);
  add(o.form.compact_scales, kOptCompact);
  add(!o.rowwise_amax.empty() || !o.columnwise_amax.empty(), kOptGivenAmax);
  add(Estimates(o), kOptEstimation);
  add(o.fp8.epsilon != 0, kOptEpsilon);
  add(o.fp8.power_of_two.has_value(), kOptPowerOfTwo);
  add(!o.fp8.scale.empty(), kOptGivenScale);
  add(o.fp8.history.has_value(), kOptHistory);
  add(o.mx.scale_rule.has_value(), kOptScaleRule);
  add(o.splits.has_value(), kOptGrouped);
  add(o.dbias, kOptDbias);
  add(o.statistics, kOptStatistics);
  add(o.profile != Profile::kTe, kOptProfile);
  return used;
}

std::vector<std::string_view> OptionsOf(const FormatSpec& format) {
  std::vector<std::string_view> names;
  for (const OptionSpec& option : Options()) {
    if (format.options & option.option) names.push_back(option.name);
  }
  return names;
}

std::string FormatsWith(Option option) {
  std::vector<std::string_view> names;
  for (const FormatSpec& f : kFormats) {
    if (f.options & option) names.push_back(f.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::Status CheckSupport(const FormatSpec& format,
                          const QuantizeOptions& options) {
  const uint32_t used = UsedOptions(options);
  for (const OptionSpec& spec : kOptions) {
    if ((used & spec.option) == 0 || (format.options & spec.option) != 0) {
      continue;
    }
    return FieldError(
        spec.field,
        fmt::format("{} only with {}", spec.name, FormatsWith(spec.option)),
        fmt::format("{} with {}", spec.name, format.name));
  }
  for (const Conflict& c : kConflicts) {
    if ((used & c.a) == 0 || (used & c.b) == 0) continue;
    if (c.columnwise_only && !HasColumnwise(options.usage)) continue;
    return FieldError(
        Spec(c.a).field,
        fmt::format(
            "{} or {}, not both{}", Spec(c.a).name, Spec(c.b).name,
            c.columnwise_only ? " (a rowwise copy alone may have both)" : ""),
        "both");
  }
  for (const Need& n : kNeeds) {
    if ((used & n.option) == 0 || (used & n.needs) != 0) continue;
    return FieldError(Spec(n.option).field,
                      fmt::format("{} only together with {}",
                                  Spec(n.option).name, Spec(n.needs).name),
                      fmt::format("no {}", Spec(n.needs).name));
  }
  return absl::OkStatus();
}

std::string SupportMatrix() {
  std::string text = "| option |";
  for (const FormatSpec& f : kFormats) text += fmt::format(" {} |", f.name);
  text += "\n| --- |";
  for (size_t i = 0; i < std::size(kFormats); ++i) text += " :-: |";
  text += "\n";
  for (const OptionSpec& o : kOptions) {
    text += fmt::format("| `{}`: {} |", o.name, o.help);
    for (const FormatSpec& f : kFormats) {
      text += f.options & o.option ? " x |" : " |";
    }
    text += "\n";
  }
  text += "\nNot together:";
  const char* separator = " ";
  for (const Conflict& c : kConflicts) {
    text += fmt::format("{}`{}` with `{}`{}", separator, Spec(c.a).name,
                        Spec(c.b).name,
                        c.columnwise_only ? " in a columnwise copy" : "");
    separator = "; ";
  }
  separator = ". ";
  for (const Need& n : kNeeds) {
    text += fmt::format("{}`{}` needs `{}`", separator, Spec(n.option).name,
                        Spec(n.needs).name);
    separator = "; ";
  }
  text += ".\n\n" + ProfileMatrix();
  return text;
}

}  // namespace quantd
