#include "client/checkpoint/check/input_scale.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

void Add(double amax, Calibrated* scales) {
  scales->least = scales->count == 0 ? amax : std::min(scales->least, amax);
  scales->most = std::max(scales->most, amax);
  ++scales->count;
}

}  // namespace

// A scale maps the largest magnitude to 448, or to 6 * 448 for NVFP4.
double InputAmax(const ModelTensor& tensor, Global rule, float scale) {
  if (tensor.name().ends_with("_global_scale")) rule = Global::kDivisor;
  return rule == Global::kNone ? 448.0 * scale : AmaxOf(rule, scale);
}

absl::StatusOr<Calibration> CalibrationOf(const Model& model,
                                          const StoredModel& stored) {
  Calibration out;
  for (const StoredWeight& w : stored.weights) {
    const ModelTensor* t = w.part(PartSource::kInputScale);
    if (t == nullptr) continue;
    const auto numbers = ReadNumbers(model, *t);
    if (!numbers.ok()) return numbers.status();
    for (const float x : *numbers) {
      Add(InputAmax(*t, w.layout->global, x), &out.inputs);
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    if (!IsCacheScale(t.name())) continue;
    const auto numbers = ReadNumbers(model, t);
    if (!numbers.ok()) return numbers.status();
    for (const float x : *numbers) Add(448.0 * x, &out.caches);
  }
  return out;
}

Json JsonOf(const Calibrated& scales) {
  return {
      {"count", scales.count}, {"least", scales.least}, {"most", scales.most}};
}

std::vector<std::string> LinesOf(const Calibration& calibration) {
  std::vector<std::string> lines;
  const auto add = [&](const Calibrated& scales, std::string_view what) {
    if (scales.count == 0) return;
    lines.push_back(fmt::format(
        "{} scales of {}, for largest magnitudes of {:.4g} to {:.4g}",
        scales.count, what, scales.least, scales.most));
  };
  add(calibration.inputs, "inputs");
  add(calibration.caches, "keys and values");
  return lines;
}

absl::StatusOr<bool> AreReciprocals(const Model& model,
                                    const StoredModel& stored) {
  size_t all = 0;
  size_t large = 0;
  size_t small = 0;  // scales whose reciprocals are plausible
  for (const StoredWeight& w : stored.weights) {
    const ModelTensor* t = w.part(PartSource::kInputScale);
    if (t == nullptr || t->stored.dtype != "F32") continue;
    const auto numbers = ReadNumbers(model, *t);
    if (!numbers.ok()) return numbers.status();
    for (const float x : *numbers) {
      if (!(x > 0) || !std::isfinite(x) || !std::isfinite(1 / x)) return false;
      const double amax = InputAmax(*t, w.layout->global, 1 / x);
      if (amax > kMostInput || amax < kLeastInput) return false;
      ++all;
      large += InputAmax(*t, w.layout->global, x) > kMostMedianInput;
      small += amax <= kMostMedianInput;
    }
  }
  return all > 0 && 2 * large > all && 2 * small > all;
}

namespace {

// Whether `is(rule, scale)` is true for at least half of the global scales.
template <typename Is>
absl::StatusOr<bool> AreGlobals(const Model& model, const StoredModel& stored,
                                Is is) {
  size_t some = 0;
  size_t all = 0;
  for (const StoredWeight& w : stored.weights) {
    const ModelTensor* t = w.part(PartSource::kGlobal);
    if (t == nullptr || w.experts != 1) continue;
    const auto numbers = ReadNumbers(model, *t);
    if (!numbers.ok()) return numbers.status();
    all += numbers->size();
    some += static_cast<size_t>(std::ranges::count_if(
        *numbers, [&](float x) { return is(w.layout->global, x); }));
  }
  return all > 0 && 2 * some >= all;
}

}  // namespace

absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored) {
  constexpr float kLargeAmax = 64;
  return AreGlobals(model, stored, [](Global rule, float x) {
    return x > 1 / kLargeAmax && x < 1 && AmaxOf(rule, x) > kLargeAmax &&
           AmaxOf(rule, 1 / x) > kLargeAmax &&
           (IsOf16Bits(x) || !IsOf16Bits(AmaxOf(rule, x)));
  });
}

absl::StatusOr<bool> AreAllLarge(const Model& model,
                                 const StoredModel& stored) {
  constexpr float kLargest = 2688;
  return AreGlobals(model, stored, [](Global rule, float x) {
    return x > 0 && AmaxOf(rule, x) > kLargest;
  });
}

}  // namespace quantd::checkpoint
