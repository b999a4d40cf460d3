#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/checkpoint/check/input_scale.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/weight_values.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr size_t kSome = 3;
// Bounds of a scale of the KV cache.
constexpr double kMostCacheScale = 1000;
constexpr double kLeastCacheScale = 1e-8;
// Bounds of the median over all layers. Keys may be as large as inputs if
// biases are large. Values are smaller, because they are computed from
// normalized inputs.
constexpr double kMostMedianKeyScale = kMostMedianInput / 448;
constexpr double kMostMedianValueScale = 2;

struct Input {
  const StoredWeight* weight = nullptr;
  const ModelTensor* tensor = nullptr;
  float scale = 0;
  double amax = 0;  // largest input that the scale implies
};

struct CacheScales {
  std::string_view what;
  double most_median = 0;
  std::string first = {};  // name of the first tensor added
  std::vector<float> finite = {};

  void Add(const std::string& name, const std::vector<float>& numbers) {
    if (first.empty()) first = name;
    std::ranges::copy_if(numbers, std::back_inserter(finite),
                         [](float x) { return std::isfinite(x); });
  }
  double Median() const {
    std::vector<float> sorted = finite;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

class InputRules : public Rules {
 public:
  using Rules::Rules;

  void CheckInputs() {
    size_t missing = 0;
    size_t needing = 0;
    for (const StoredWeight& w : stored_.weights) {
      const ModelTensor* tensor = nullptr;
      for (const char* suffix :
           {".input_scale", ".input_global_scale", ".activation_scale"}) {
        const auto* found = model_.Find(w.module + suffix);
        if (found != nullptr) tensor = found;
      }
      const bool needs = declared_.NeedsInputScale(w);
      needing += needs;
      if (tensor == nullptr) {
        missing += needs;
        continue;
      }
      const std::vector<float> numbers = NumbersOf(*tensor);
      if (numbers.empty()) continue;
      const float scale = numbers.front();
      if (numbers.size() > 1) {
        Find("input-scale", w.module,
             "{} has {} numbers, but engines expect one", tensor->name(),
             numbers.size());
      }
      if (!needs && IsListed()) {
        Find({"config-mismatch", "input scales"}, w.module,
             "it has an input scale, but the configuration declares inputs as "
             "unquantized or as scaled at run time");
      }
      inputs_.push_back(
          {&w, tensor, scale, InputAmax(*tensor, w.layout->global, scale)});
    }
    if (missing > 0) TellMissing(missing, needing);
    CheckFused();
    if (ValueOf(AreReciprocals(model_, stored_))) return TellReciprocals();
    for (const Input& i : inputs_) CheckOne(i);
    CheckAll();
  }

  void CheckCache() {
    // For each layer, 'k' and 'v' if its keys and values have scales.
    std::map<std::string, std::set<char>> scaled;
    CacheScales keys = {"keys", kMostMedianKeyScale};
    CacheScales values = {"values", kMostMedianValueScale};
    const Json* strategy =
        Member(Member(declared_.quantization(), "kv_cache_scheme"), "strategy");
    const bool one = strategy == nullptr || *strategy == "tensor";
    for (const ModelTensor& t : model_.tensors()) {
      const std::string& name = t.name();
      const bool key = name.ends_with(".k_scale");
      const bool value = name.ends_with(".v_scale");
      const bool both = name.ends_with(".kv_scale");
      if (!key && !value && !both) continue;
      const std::string layer = LayerOf(name).whole();
      if (key || both) scaled[layer].insert('k');
      if (value || both) scaled[layer].insert('v');
      const std::vector<float> numbers = NumbersOf(t);
      if (one && numbers.size() > 1) {
        Find({"cache-scale", "numbers"}, name,
             "it has {} numbers, but engines expect one", numbers.size());
      }
      (value ? values : keys).Add(name, numbers);
      for (const float x : numbers) {
        if (std::isfinite(x) && x >= kLeastCacheScale && x <= kMostCacheScale) {
          continue;
        }
        Find("cache-scale", name, "{}",
             std::isnan(x)
                 ? "it is NaN"
                 : fmt::format(
                       "it is {:.4g}, which is implausible for keys or values",
                       x));
        break;
      }
    }
    CheckMedian(keys);
    CheckMedian(values);
    const bool declared = declared_.HasCacheScales();
    if (!declared && scaled.empty()) return;
    CheckDeclared(declared);
    for (const std::string& layer : AttentionLayers()) {
      const std::set<char>& there = scaled[layer];
      if (there.size() == 2) continue;
      const char* what = there.empty()           ? "no scales"
                         : there.count('k') == 0 ? "no scale of keys"
                                                 : "no scale of values";
      Find("cache-scale", layer, "it has {} of the KV cache, {}", what,
           declared ? "but the configuration announces scales in the file"
                    : "but other layers have scales");
    }
  }

 private:
  void CheckMedian(const CacheScales& scales) {
    const double median = scales.Median();
    if (median <= scales.most_median || median > kMostCacheScale) return;
    Find({"cache-scale", scales.what}, scales.first,
         "half of all scales of {} are at least {:.4g}, which "
         "implies {} as large as {:.3g}: they may be reciprocals, "
         "or the largest {} not yet divided by 448",
         scales.what, median, scales.what, 448 * median, scales.what);
  }

  // Finds cache scales that engines would load although no quantized cache is
  // declared.
  void CheckDeclared(bool declared) {
    const Dialect dialect = declared_.dialect();
    const std::string_view end =
        dialect == Dialect::kModelOpt            ? ".k_proj.k_scale"
        : dialect == Dialect::kCompressedTensors ? "attn.k_scale"
                                                 : "";
    if (declared || end.empty()) return;
    for (const ModelTensor& t : model_.tensors()) {
      if (!t.name().ends_with(end)) continue;
      Find("cache-scale", t.name(),
           "the file has it, but the configuration declares no quantized KV "
           "cache");
    }
  }

  // Whether configurations of the dialect describe how inputs are quantized.
  bool IsListed() const {
    const Dialect d = declared_.dialect();
    return d == Dialect::kCompressedTensors || d == Dialect::kModelOpt ||
           d == Dialect::kDeepSeek;
  }

  void TellMissing(size_t missing, size_t needing) {
    const bool none = missing == needing;
    std::set<const StoredWeight*> there;
    for (const Input& i : inputs_) there.insert(i.weight);
    for (const StoredWeight& w : stored_.weights) {
      if (there.count(&w) > 0 || !declared_.NeedsInputScale(w)) continue;
      const std::string label = Label(w);
      Find("no-input-scale", w.module, "{}",
           none ? fmt::format(
                      "it is declared as {}, but no weight has an input scale",
                      label)
                : fmt::format("it is declared as {}, but has no input scale, "
                              "unlike other weights",
                              label));
      if (none) return;
    }
  }

  std::string Label(const StoredWeight& w) const {
    if (declared_.dialect() == Dialect::kDeepSeek) return "static";
    const std::string algorithm = declared_.AlgorithmOf(w.module);
    if (!algorithm.empty()) return algorithm;
    const DeclaredGroup* group = declared_.GroupOf(w.module);
    constexpr std::string_view kGroups = "config_groups.";
    return group ? group->name.substr(kGroups.size()) : "static";
  }

  void TellReciprocals() {
    const Input& most = *std::ranges::max_element(
        inputs_,
        [](const Input& a, const Input& b) { return a.amax < b.amax; });
    Find({"input-scale", kReciprocals}, most.weight->module,
         "{} is {:.4g}, which implies inputs as large as {:.3g}, "
         "while its reciprocal implies {:.3g}. The same holds for "
         "most of the {} input scales: they seem to be reciprocals",
         most.tensor->name(), most.scale, most.amax,
         InputAmax(*most.tensor, most.weight->layout->global, 1 / most.scale),
         inputs_.size());
  }

  void CheckOne(const Input& i) {
    if (!(i.scale > 0) || !std::isfinite(i.scale)) {
      // ScaleRules checks input scales that are part of a layout.
      if (i.weight->part(PartSource::kInputScale) == nullptr) {
        Find("bad-scale", i.weight->module, "{} is not a positive number",
             i.tensor->name());
      }
      return;
    }
    if (i.amax <= kMostInput && i.amax >= kLeastInput) return;
    Find("input-scale", i.weight->module,
         "{} is {:.4g}, which implies inputs as large as {:.3g}",
         i.tensor->name(), i.scale, i.amax);
  }

  void CheckAll() {
    if (inputs_.size() < kSome) return;
    std::vector<double> amaxes;
    bool ones = true;
    std::vector<const Input*> single;
    for (const Input& i : inputs_) {
      amaxes.push_back(i.amax);
      ones &= i.scale == 1;
      if (i.scale == 1) single.push_back(&i);
    }
    for (const Input* i : single) {
      if (ones) break;
      Find("input-scale", i->weight->module,
           "{} is 1, as if it was not measured; those of some other "
           "weights are not",
           i->tensor->name());
    }
    std::ranges::sort(amaxes);
    const double median = amaxes[amaxes.size() / 2];
    const std::string& first = inputs_.front().weight->module;
    if (ones) {
      Find("input-scale", first,
           "all {} input scales are 1, as if they were not measured",
           inputs_.size());
    } else if (AreAmaxes()) {
      Find("input-scale", first,
           "all {} input scales are exact in bf16. Largest inputs are, "
           "but 2688 divided by a largest input rarely is: they seem to "
           "be the largest inputs themselves",
           inputs_.size());
    } else if (median > kMostMedianInput && median <= kMostInput) {
      Find("input-scale", first,
           "half of all input scales imply inputs larger than "
           "{:.3g}: they may be reciprocals",
           median);
    }
  }

  // Whether the supposed divisors are amaxes: an amax of inputs is exact in
  // bf16, but 2688 divided by an amax rarely is.
  bool AreAmaxes() const {
    constexpr size_t kDistinct = 5;
    std::set<float> scales;
    size_t exact = 0;
    for (const Input& i : inputs_) {
      if (!i.tensor->name().ends_with("_global_scale") ||
          i.tensor->stored.dtype != "F32" || !IsBf16(i.scale)) {
        return false;
      }
      if (scales.insert(i.scale).second) {
        exact += IsBf16(static_cast<float>(i.amax));
      }
    }
    return scales.size() >= kDistinct && 2 * exact < scales.size();
  }
  static bool IsBf16(float x) {
    return (std::bit_cast<uint32_t>(x) & 0xFFFF) == 0;
  }

  void CheckFused() {
    if (!architecture_.known()) return;
    std::map<std::string, const Input*> first;
    for (const Input& i : inputs_) {
      const auto key =
          architecture_.FusionKey(i.weight->module, i.weight->cols);
      if (key.empty()) continue;
      const auto [place, fresh] = first.emplace(key, &i);
      const Input& other = *place->second;
      if (fresh ||
          std::abs(i.scale - other.scale) <= 1e-3 * std::abs(other.scale)) {
        continue;
      }
      Find("fused-input-scales", i.weight->module,
           "the input scale of {} is {:.4g}, but that of {} is "
           "{:.4g}, for the same inputs",
           other.weight->module, other.scale, i.weight->module, i.scale);
    }
  }

  std::set<std::string> AttentionLayers() const {
    std::set<std::string> layers;
    for (const auto& [attention, shard] : AttentionsOf(model_, architecture_)) {
      if (auto layer = LayerOf(attention + ".").whole(); !layer.empty()) {
        layers.insert(std::move(layer));
      }
    }
    return layers;
  }

  std::vector<Input> inputs_;
};

}  // namespace

void LintInputs(const LintedModel& linted, Findings* findings) {
  InputRules rules(linted, findings);
  rules.CheckInputs();
  rules.CheckCache();
}

}  // namespace quantd::checkpoint
