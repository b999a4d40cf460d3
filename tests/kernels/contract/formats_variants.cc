#include "tests/kernels/contract/formats_variants.h"

#include <iterator>

#include "fmt/format.h"
#include "kernels/plan/support.h"
#include "quantd/plan.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/device.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::QuantizeSpec;

void Stochastic(QuantizeSpec& s, size_t turn) {
  s.stochastic = true;
  s.seed = Mix(turn);
  s.seed_offset = turn % 3 == 0 ? Mix(turn + 1) : turn % 5;
  s.row_offset = turn % 4 == 0 ? static_cast<int64_t>(Mix(turn + 2) >> 20) : 0;
  s.column_offset = turn % 3 == 0 ? static_cast<int64_t>(turn * 7) : 0;
  s.total_columns = turn % 6 == 0 ? s.column_offset + 4096 : 0;
}

// Rotates both copies, or one of them.
std::function<void(QuantizeSpec&, size_t)> Rotated(int dimension,
                                                   bool stochastic) {
  return [=](QuantizeSpec& s, size_t turn) {
    s.dimension = dimension;
    s.rotate_rows = turn % 3 != 1 || !s.columnwise;
    s.rotate_columns = turn % 3 != 2 || !s.rowwise;
    if (stochastic) Stochastic(s, turn);
  };
}

// Options that VariantsFor varies by itself, that formats_test.cc combines with
// every variant, and that it or profiles_test.cc tests alone. All others are
// set as in plan_rows.
constexpr uint32_t kElsewhere = kOptRht | kOptStochastic | kOptGivenAmax |
                                kOptEstimation | kOptSwizzled | kOptCompact |
                                kOptAlways | kOptRowScaled | kOptFourOverSix |
                                kOptGivenScale | kOptHistory | kOptProfile;

}  // namespace

std::vector<Variant> VariantsFor(const FormatSpec& f) {
  std::vector<Variant> v = {{"nearest", Nearest}};
  if (f.options & kOptStochastic) v.push_back({"stochastic", Stochastic});
  if (f.options & kOptRht) {
    for (int dimension : kRhtDimensions) {
      v.push_back(
          {fmt::format("rht {}", dimension), Rotated(dimension, false)});
      if (f.options & kOptStochastic) {
        v.push_back({fmt::format("rht {} stochastic", dimension),
                     Rotated(dimension, true)});
      }
    }
  }
  if (f.options & kOptRht && f.options & kOptGivenAmax) {
    // The amax of a rotated copy, or of both, is given.
    v.push_back({"rht given", [](QuantizeSpec& s, size_t turn) {
                   Rotated(kRhtDimensions[turn / 2 % 4], false)(s, turn);
                   const float amax =
                       kGivenAmaxes[turn % std::size(kGivenAmaxes)];
                   s.row_amax.clear();
                   s.column_amax.clear();
                   if (s.rowwise && turn % 3 != 1) s.row_amax = {amax};
                   if (s.columnwise && turn % 3 != 2) s.column_amax = {amax};
                 }});
  }
  if (f.options & kOptEstimation) {
    v.push_back(
        {"estimated", [](QuantizeSpec& s, size_t turn) {
           Rotated(kRhtDimensions[turn / 2 % 4], false)(s, turn);
           constexpr float kScales[] = {2.0f, 1.0f, 0.25f, 4.0f, 0.0f};
           s.estimation = kScales[turn % 5];
           // An amax from the producer, for the unrotated copy, which is not
           // always requested.
           s.row_amax.clear();
           s.column_amax.clear();
           if (*s.estimation == 0 || turn % 3 == 0) return;
           if (!s.rotate_rows)
             s.row_amax = {kGivenAmaxes[turn % std::size(kGivenAmaxes)]};
           if (!s.rotate_columns)
             s.column_amax = {kGivenAmaxes[turn % std::size(kGivenAmaxes)]};
         }});
  }
  std::vector<Setting> others;
  for (const OptionSpec& spec : Options()) {
    if ((f.options & spec.option & ~kElsewhere) == 0) continue;
    for (Setting& s : SettingsOf(spec.option)) others.push_back(std::move(s));
  }
  for (const Setting& setting : others) {
    v.push_back({setting.name, [=](QuantizeSpec& s, size_t turn) {
                   TensorDesc tensor;
                   QuantizeOptions o;
                   setting.set(tensor, o);
                   // Sometimes together with another of these options.
                   const Setting& other = others[turn / 2 % others.size()];
                   QuantizeOptions both = o;
                   if (other.option != setting.option) other.set(tensor, both);
                   SetArithmetic(
                       turn % 2 && CheckSupport(f, both).ok() ? both : o, &s);
                 }});
  }
  return v;
}

}  // namespace quantd
