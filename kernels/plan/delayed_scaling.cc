#include "quantd/delayed_scaling.h"

#include <cmath>
#include <limits>

namespace quantd {

ScaleUpdate UpdateScale(absl::Span<const float> history, HistoryRule rule,
                        int margin, float element_max, float previous) {
  float amax = history[0];
  if (rule == HistoryRule::kMax) {
    for (float h : history) amax = std::fmax(amax, h);
  }
  ScaleUpdate out;
  out.scale = previous;
  if (std::isfinite(amax) && amax > 0) {
    const float largest = std::ldexp(element_max, -margin);
    out.scale = std::fmin(largest / amax, std::numeric_limits<float>::max());
  }
  const size_t n = history.size();
  out.history.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) out.history[i] = history[i + 1];
  out.history[n - 1] = history[0];
  out.history[0] = 0;
  return out;
}

GroupUpdates UpdateScales(absl::Span<const float> history,
                          absl::Span<const float> amaxes, HistoryRule rule,
                          int margin, float element_max,
                          absl::Span<const float> previous) {
  GroupUpdates out;
  const size_t values = history.size() / amaxes.size();
  for (size_t g = 0; g < amaxes.size(); ++g) {
    const auto part = history.subspan(g * values, values);
    std::vector<float> now(part.begin(), part.end());
    now[0] = amaxes[g];
    const ScaleUpdate update =
        UpdateScale(now, rule, margin, element_max, previous[g]);
    out.history.insert(out.history.end(), update.history.begin(),
                       update.history.end());
    out.scales.push_back(update.scale);
  }
  return out;
}

}  // namespace quantd
