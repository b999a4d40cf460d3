#include "client/checkpoint/repair/global_scale.h"

#include <algorithm>
#include <cstddef>

#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {

absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored) {
  constexpr float kLargeAmax = 64;
  size_t amaxes = 0;
  size_t all = 0;
  for (const StoredWeight& w : stored.weights) {
    const ModelTensor* t = w.part(PartSource::kGlobal);
    if (t == nullptr || w.experts != 1) continue;
    const auto numbers = ReadNumbers(model, *t);
    if (!numbers.ok()) return numbers.status();
    const Global rule = w.layout->global;
    all += numbers->size();
    amaxes += static_cast<size_t>(
        std::count_if(numbers->begin(), numbers->end(), [&](float x) {
          return x > 1 / kLargeAmax && x < 1 && AmaxOf(rule, x) > kLargeAmax &&
                 AmaxOf(rule, 1 / x) > kLargeAmax;
        }));
  }
  return all > 0 && 2 * amaxes >= all;
}

}  // namespace quantd::checkpoint
