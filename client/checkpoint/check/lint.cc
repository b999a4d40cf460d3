#include "client/checkpoint/check/lint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr LintRule kRules[] = {
    {"fused-scales",
     "weights that engines fuse have global scales of their own, of which "
     "engines take one for all",
     "vllm#54974"},
    {"fused-in-part",
     "of weights that engines fuse some are quantized and some are not",
     "vllm#56095"},
    {"bad-scale", "a scale is zero, negative, NaN or infinite", "vllm#45212"},
    {"no-input-scale",
     "labelled as quantizing activations with scales from the file, which has "
     "none",
     "vllm#45320"},
    {"divisor",
     "a global scale is a multiplier where the dialect has a divisor, or the "
     "other way round",
     "modular#6600"},
    {"unclear-layout",
     "quantized, but names, types and shapes fit no dialect: padded or "
     "swizzled scales, for example",
     "Model-Optimizer#2008"},
    {"stacked-experts", "experts in one tensor were left unquantized",
     "Model-Optimizer#1173"},
    {"config", "the configuration lacks what engines raise on",
     "Model-Optimizer#2011"},
    {"ignore-list",
     "the configuration and the tensors do not agree on what is quantized",
     "compressed-tensors#672"},
    {"nibble-order", "the halves of bytes are in the order of another dialect",
     "sglang#23625"},
    {"not-the-original", "the weights are not those of the original model",
     "ComfyUI#11822"},
};

class Linter {
 public:
  Linter(const Model& model, const Model* original, const StoredModel& stored,
         const Architecture& architecture)
      : model_(model),
        original_(original),
        stored_(stored),
        architecture_(architecture) {}

  absl::StatusOr<std::vector<Finding>> Run() {
    for (const UnclearWeight& u : stored_.unclear) {
      Find("unclear-layout", u.module, u.why);
    }
    if (auto s = CheckScales(); !s.ok()) return s;
    CheckFused();
    CheckConfig();
    CheckModules();
    if (auto s = CheckOriginal(); !s.ok()) return s;
    return std::move(findings_);
  }

 private:
  // One line for a rule that many weights break.
  void Find(std::string_view rule, const std::string& where,
            const std::string& text) {
    for (Finding& f : findings_) {
      if (f.rule != rule) continue;
      ++f.count;
      return;
    }
    findings_.push_back({rule, where, text});
  }

  absl::Status CheckScales() {
    for (const StoredWeight& w : stored_.weights) {
      for (const PartSource source : {PartSource::kScales, PartSource::kGlobal,
                                      PartSource::kInputScale}) {
        const ModelTensor* part = w.part(source);
        if (part == nullptr) continue;
        const auto numbers = ReadNumbers(model_, *part);
        if (!numbers.ok()) return numbers.status();
        // A block of zeros has a scale of zero.
        const bool zero_is_bad = source != PartSource::kScales ||
                                 w.layout->scale_shape != ScaleShape::kBlocks;
        bool all_zero = !numbers->empty();
        for (const float x : *numbers) {
          all_zero &= x == 0;
          if (std::isfinite(x) && x >= 0 && (x > 0 || !zero_is_bad)) continue;
          Find("bad-scale", w.module,
               fmt::format("{} holds {}", part->name(), x));
          break;
        }
        if (all_zero && !zero_is_bad) {
          Find("bad-scale", w.module,
               fmt::format("{} holds nothing but zeros", part->name()));
        }
        if (source == PartSource::kGlobal && numbers->size() == 1) {
          CheckGlobal(w, (*numbers)[0]);
        }
      }
    }
    return absl::OkStatus();
  }

  void CheckGlobal(const StoredWeight& w, float global) {
    globals_[w.module] = global;
    if (!(global > 0) || !std::isfinite(global)) return;
    // No weight of a model is larger than this.
    constexpr float kLargestWeight = 2688;
    if (AmaxOf(w.layout->global, global) > kLargestWeight) {
      Find("divisor", w.module,
           fmt::format("{} of {} would mean weights as large as {:.3g}",
                       w.layout->global == Global::kDivisor ? "a divisor"
                                                            : "a multiplier",
                       global, AmaxOf(w.layout->global, global)));
    }
  }

  void CheckFused() {
    std::map<std::string, std::vector<const StoredWeight*>> fused;
    std::map<std::string, std::string> plain;
    for (const StoredWeight& w : stored_.weights) {
      const auto key = architecture_.FusionKey(w.module, w.cols);
      if (!key.empty()) fused[key].push_back(&w);
    }
    for (const ModelTensor& t : model_.tensors()) {
      if (t.stored.shape.size() != 2 || !t.name().ends_with(".weight") ||
          safetensors::BitsOf(t.stored.dtype) < 16) {
        continue;
      }
      const std::string module(ModuleOf(t.name()));
      const auto key = architecture_.FusionKey(module, t.stored.shape[1]);
      if (!key.empty() && architecture_.known()) plain.emplace(key, module);
    }
    for (const auto& [key, weights] : fused) {
      if (const auto found = plain.find(key); found != plain.end()) {
        Find("fused-in-part", found->second,
             fmt::format("{} is quantized and {} is not",
                         weights.front()->module, found->second));
      }
      for (const StoredWeight* w : weights) {
        const StoredWeight& first = *weights.front();
        if (w->layout != first.layout) {
          Find("fused-in-part", w->module,
               fmt::format("{} is {} and {} is {}", first.module,
                           Name(first.layout->format), w->module,
                           Name(w->layout->format)));
        } else if (globals_.count(w->module) > 0 && architecture_.known() &&
                   globals_[w->module] != globals_[first.module]) {
          Find("fused-scales", w->module,
               fmt::format("{} has {} and {} has {}", first.module,
                           globals_[first.module], w->module,
                           globals_[w->module]));
        }
      }
    }
  }

  const Json* Quantization() const {
    const auto found = model_.config().find("quantization_config");
    return found == model_.config().end() || !found->is_object() ? nullptr
                                                                 : &*found;
  }

  void CheckConfig() {
    if (stored_.weights.empty() || model_.single_file()) return;
    const StoredWeight& first = stored_.weights.front();
    const Dialect dialect = first.layout->dialect;
    const Json* q = Quantization();
    if (dialect == Dialect::kComfy) return;
    if (q == nullptr) {
      Find("config", "config.json",
           "no quantization_config: engines take the codes for weights");
      return;
    }
    const auto needs = [&](const Json& json, const char* file,
                           std::initializer_list<const char*> keys) {
      for (const char* key : keys) {
        if (!json.contains(key)) {
          Find("config", file, fmt::format("no \"{}\"", key));
        }
      }
    };
    const auto measured = std::any_of(
        stored_.weights.begin(), stored_.weights.end(), [](const auto& w) {
          return w.part(PartSource::kInputScale) != nullptr;
        });
    const auto no_scale = [&](const std::string& label) {
      if (measured) return;
      Find("no-input-scale", first.module,
           fmt::format("labelled {}, and no weight has a scale of activations",
                       label));
    };
    switch (dialect) {
      case Dialect::kModelOpt: {
        const auto own =
            ReadJsonObject(model_.path() + "/hf_quant_config.json");
        if (!own.ok()) {
          Find("config", "hf_quant_config.json", "missing or no JSON");
          return;
        }
        const Json quantization = own->value("quantization", Json::object());
        needs(quantization, "hf_quant_config.json",
              {"quant_algo", "kv_cache_quant_algo", "exclude_modules"});
        const Json algo = quantization.value("quant_algo", Json());
        if (first.layout->format == WeightFormat::kNvfp4) {
          needs(quantization, "hf_quant_config.json", {"group_size"});
        }
        if (algo == "NVFP4" || algo == "FP8") {
          no_scale(algo.get<std::string>());
        }
        break;
      }
      case Dialect::kCompressedTensors: {
        needs(*q, "config.json", {"config_groups", "format", "ignore"});
        const Json groups = q->value("config_groups", Json::object());
        for (const auto& [name, group] : groups.items()) {
          const Json inputs = group.is_object()
                                  ? group.value("input_activations", Json())
                                  : Json();
          if (inputs.is_object() &&
              inputs.value("dynamic", Json(false)) != true) {
            no_scale(name);
          }
        }
        break;
      }
      case Dialect::kDeepSeek:
        needs(*q, "config.json", {"fmt", "weight_block_size"});
        break;
      case Dialect::kGptOss:
      case Dialect::kComfy:
      case Dialect::kNone:
        break;
    }
  }

  // Modules that the configuration says to be as they were.
  std::set<std::string> Ignored() const {
    std::set<std::string> names;
    const Json* q = Quantization();
    if (q == nullptr) return names;
    for (const char* key : {"ignore", "modules_to_not_convert"}) {
      const auto list = q->find(key);
      if (list == q->end() || !list->is_array()) continue;
      for (const Json& name : *list) {
        if (name.is_string()) names.insert(name.get<std::string>());
      }
    }
    return names;
  }

  void CheckModules() {
    if (stored_.weights.empty()) return;
    const std::set<std::string> ignored = Ignored();
    for (const StoredWeight& w : stored_.weights) {
      if (ignored.count(w.module) > 0) {
        Find("ignore-list", w.module,
             "quantized, and on the list of those "
             "that are not");
      }
    }
    const StoredWeight& first = stored_.weights.front();
    for (const ModelTensor& t : model_.tensors()) {
      if (IsStacked(t) && safetensors::BitsOf(t.stored.dtype) >= 16 &&
          ignored.count(std::string(ModuleOf(t.name()))) == 0) {
        Find("stacked-experts", t.name(),
             fmt::format("{} experts are {}", t.stored.shape[0],
                         t.stored.dtype));
      }
      // Engines expect every linear layer quantized that is on no list.
      const std::string module(ModuleOf(t.name()));
      if (first.layout->dialect == Dialect::kCompressedTensors &&
          t.stored.shape.size() == 2 && t.name().ends_with(".weight") &&
          safetensors::BitsOf(t.stored.dtype) >= 16 && Quantization() &&
          ignored.empty() && architecture_.RoleOf(module) == Role::kLinear) {
        Find("ignore-list", module,
             "not quantized, and the list of those that are not is empty");
      }
    }
  }

  absl::Status CheckOriginal() {
    if (original_ == nullptr) return absl::OkStatus();
    for (const StoredWeight& w : stored_.weights) {
      const ModelTensor* t = original_->Find(w.module + ".weight");
      if (t == nullptr || w.experts > 1 || t->stored.shape.size() != 2 ||
          t->stored.shape[0] != w.rows || t->stored.shape[1] != w.cols) {
        continue;
      }
      const auto as_said = Noise(w, *t, /*swapped=*/false);
      if (!as_said.ok()) return as_said.status();
      // The coarsest format is at 15 dB and better: a thirtieth.
      constexpr double kMostNoise = 0.1;
      if (*as_said < kMostNoise) continue;
      const bool four = FindFormat(w.layout->codes)->element == DType::kE2M1x2;
      if (four) {
        const auto swapped = Noise(w, *t, /*swapped=*/true);
        if (!swapped.ok()) return swapped.status();
        if (*swapped < kMostNoise) {
          Find("nibble-order", w.module,
               fmt::format("the error is {:.2g} of the weights, and {:.2g} "
                           "with the halves of bytes swapped",
                           *as_said, *swapped));
          continue;
        }
      }
      Find("not-the-original", w.module,
           fmt::format("the error is {:.2g} of the weights; if they are its "
                       "own, the scales are in another order or of another "
                       "kind than the names say",
                       *as_said));
    }
    return absl::OkStatus();
  }

  // The sum of squared errors in that of squared weights, of some rows.
  absl::StatusOr<double> Noise(const StoredWeight& w, const ModelTensor& t,
                               bool swapped) const {
    WeightValues values(model_, w);
    WeightValues truth(*original_, t);
    if (swapped) values.SwapHalves();
    std::vector<float> x;
    std::vector<float> y;
    const int64_t count = std::min<int64_t>(w.rows, 64);
    if (auto s = truth.Read(0, count, &x); !s.ok()) return s;
    if (auto s = values.Read(0, count, &y); !s.ok()) return s;
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      signal += static_cast<double>(x[i]) * x[i];
      noise += (static_cast<double>(x[i]) - y[i]) * (x[i] - y[i]);
    }
    return signal == 0 ? (noise == 0 ? 0 : 1) : noise / signal;
  }

  const Model& model_;
  const Model* original_;
  const StoredModel& stored_;
  const Architecture& architecture_;
  std::map<std::string, float> globals_;
  std::vector<Finding> findings_;
};

}  // namespace

absl::Span<const LintRule> LintRules() { return kRules; }

absl::StatusOr<std::vector<Finding>> Lint(const Model& model,
                                          const Model* original) {
  const auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  const auto architecture = Architecture::Of(model, {});
  if (!architecture.ok()) return architecture.status();
  return Linter(model, original, *stored, *architecture).Run();
}

}  // namespace quantd::checkpoint
