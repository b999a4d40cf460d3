#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/check/rules.h"
#include "fmt/format.h"

namespace quantd::checkpoint {

absl::Status LintAgainst(const Model& original, const LintedModel& linted,
                         Findings* findings) {
  for (const StoredWeight& w : linted.stored.weights) {
    const auto found = FindReading(linted.model, w, original);
    if (!found.ok()) return found.status();
    if (found->noise < 0) continue;
    if (!found->right) {
      findings->Add("not-the-original", w.module,
                    fmt::format("the error is {:.2g} of the weights; if they "
                                "are its own, the scales are of another kind "
                                "than the names say",
                                found->noise));
      continue;
    }
    const Reading& r = *found->right;
    if (r.halves_swapped) {
      findings->Add(
          "nibble-order", w.module,
          fmt::format("the error is {:.2g} of the weights, and {:.2g} "
                      "with the halves of bytes swapped",
                      found->noise, r.noise));
    }
    if (r.order_swapped) {
      findings->Add(
          w.layout->swizzled ? "unclear-layout" : "swizzled-scales", w.module,
          fmt::format("the error is {:.2g} of the weights, and {:.2g} with the "
                      "scales {}",
                      found->noise, r.noise,
                      w.layout->swizzled ? "as they lie" : "unswizzled"));
    }
  }
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
