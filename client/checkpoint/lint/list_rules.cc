#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/nameless.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/convert/module_names.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/stacked.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

class ListRules : public Rules {
 public:
  using Rules::Rules;

  void CheckPatterns() {
    for (const auto& [file, list] :
         {std::pair{kConfigFile, &declared_.ignored()},
          std::pair{kModelOptFile, &declared_.excluded()}}) {
      for (const std::string& text : list->broken()) {
        Find({"bad-pattern", text}, file, "{}", text);
      }
    }
    for (const DeclaredGroup& g : declared_.groups()) {
      for (const std::string& text : g.targets.broken()) {
        Find({"bad-pattern", text}, kConfigFile, "{}", text);
      }
    }
  }

  void CheckQuantized() {
    for (const StoredWeight& w : stored_.weights) {
      if (declared_.ignored().Names(w.module) ||
          declared_.excluded().Names(w.module)) {
        Find({"ignore-list", "named"}, w.module,
             "it is quantized, but listed as not quantized");
      } else if (const auto part = declared_.ignored().PartOf(w.module);
                 !part.empty()) {
        Find({"ignore-list", "part"}, w.module,
             "it is quantized, but \"{}\" in the list of modules "
             "that are not quantized is part of its name, and "
             "transformers before version 5 counts that as a match",
             part);
      } else if (const auto name = ListedLayerOf(w.module); !name.empty()) {
        Find({"ignore-list", "layer"}, w.module,
             "it is quantized, but engines look for {}, which they find in "
             "the list of modules that are not quantized",
             name);
      }
    }
  }

  void CheckLeft() {
    if (stored_.weights.empty()) return;
    const Dialect dialect = declared_.dialect();
    const bool listed = dialect == Dialect::kCompressedTensors ||
                        dialect == Dialect::kModelOpt ||
                        dialect == Dialect::kGptOss;
    std::set<std::string> classes;
    for (const StoredWeight& w : stored_.weights) {
      classes.insert(WithoutNumbers(w.module));
    }
    const bool misses_nameless = listed && !MayStay("");
    for (const ModelTensor& t : model_.tensors()) {
      if (!IsWide(t)) continue;
      const std::string module(ModuleOf(t.name()));
      std::string_view engine;
      if (misses_nameless && IsPlainMatrix(t)) {
        engine = NamelessIn(model_, module, dialect);
      }
      if (!engine.empty() && !(dialect == Dialect::kModelOpt &&
                               declared_.AlgorithmOf(module).empty())) {
        Find({"ignore-list", "nameless"}, module,
             "it is not quantized, but {} builds it without a name, which no "
             "entry of the list of modules that are not quantized matches",
             engine);
        continue;
      }
      if (MayStay(module)) continue;
      // ComfyUI accepts unquantized experts.
      const bool takes_any = linted_.dialect == Dialect::kComfy;
      if (!takes_any && (IsStacked(t) || IsStackLike(t))) {
        Find("stacked-experts", t.name(), "{} {} are stored as {}",
             t.stored.shape[0],
             IsStacked(t) ? "experts" : "matrices in one tensor",
             t.stored.dtype);
      }
      if (!IsPlainMatrix(t) || declared_.quantization() == nullptr ||
          (dialect == Dialect::kModelOpt &&
           declared_.AlgorithmOf(module).empty())) {
        continue;
      }
      // Engines assume that a module is quantized in all layers or in none.
      const bool elsewhere = classes.count(WithoutNumbers(module)) > 0;
      const Role role = architecture_.RoleOf(module);
      const bool expected =
          listed &&
          ((MayBeLinear(role) && (architecture_.known() || TakesLinear())) ||
           (MayBeLinear(role) && declared_.ignored().empty()) ||
           (role == Role::kHead && IsHead(module)) ||
           IsLinearBeside(t, role, dialect));
      if (!elsewhere && !expected) continue;
      Find({"ignore-list", "left"}, module, "it is not quantized, but {}",
           declared_.ignored().empty()
               ? "the list of modules that are not quantized is empty"
               : "missing in the list of modules that are not quantized");
    }
  }

  void CheckTargets() {
    const auto& groups = declared_.groups();
    if (std::ranges::none_of(groups, [](const DeclaredGroup& g) {
          return Has(g.targets.texts(), "Embedding");
        })) {
      return;
    }
    for (const ModelTensor& t : model_.tensors()) {
      if (!IsWide(t) || !t.name().ends_with("embed_tokens.weight")) continue;
      Find({"ignore-list", "targets"}, std::string(ModuleOf(t.name())),
           "it is not quantized, but its class is a target of a group");
    }
  }

  // Checks that both files declare the KV cache alike. Engines read either of
  // them.
  void CheckCacheAgreement() {
    if (declared_.dialect() != Dialect::kModelOpt ||
        declared_.own() == nullptr || declared_.quantization() == nullptr) {
      return;
    }
    const auto has = [](const Json* said, const char* key) {
      const Json* value = Member(said, key);
      return value != nullptr && !value->is_null();
    };
    const bool here = has(declared_.quantization(), "kv_cache_scheme") ||
                      has(declared_.quantization(), "kv_cache_quant_algo");
    if (here == has(declared_.own(), "kv_cache_quant_algo")) return;
    Find("cache-scale", here ? kModelOptFile : kConfigFile, "{}",
         here
             ? "\"kv_cache_quant_algo\" is missing, although config.json has a "
               "kv_cache_scheme"
             : "\"kv_cache_scheme\" is missing, although "
               "hf_quant_config.json has a kv_cache_quant_algo");
  }

  void CheckAgreement() {
    if (declared_.dialect() != Dialect::kModelOpt ||
        declared_.own() == nullptr ||
        Member(declared_.quantization(), "ignore") == nullptr ||
        Member(declared_.own(), "exclude_modules") == nullptr) {
      return;
    }
    const auto here = declared_.ignored().texts();
    const auto there = declared_.excluded().texts();
    std::vector<std::string> differing;
    std::set_symmetric_difference(here.begin(), here.end(), there.begin(),
                                  there.end(), std::back_inserter(differing));
    if (differing.empty()) return;
    constexpr size_t kShown = 3;
    const size_t shown = std::min(differing.size(), kShown);
    Find({"ignore-list", "files"}, kModelOptFile,
         "\"exclude_modules\" differs from \"ignore\" in config.json: {}{}",
         fmt::join(differing.begin(),
                   differing.begin() + static_cast<ptrdiff_t>(shown), ", "),
         differing.size() > shown ? " and others" : "");
  }

 private:
  // Returns a listed name if engines may find the quantized module under it,
  // else "". They look for fused layers and, in lists of globs, for all experts
  // of a layer together. In other lists they also look for the modules that
  // they fuse.
  std::string ListedLayerOf(const std::string& module) const {
    std::vector<std::string> names =
        FusedNamesOf(module, [&](const std::string& sibling) {
          return model_.Find(sibling + ".weight") != nullptr ||
                 model_.Find(sibling + ".weight_packed") != nullptr;
        });
    const bool globs = declared_.dialect() == Dialect::kModelOpt;
    const std::string experts(ExpertsAbove(module));
    if (!experts.empty() && globs) {
      names = {experts};
    } else if (names.empty() || !globs) {
      names.push_back(module);
    }
    for (const std::string& name : names) {
      if (declared_.ignored().HoldsLayer(name) ||
          declared_.excluded().HoldsLayer(name)) {
        return name;
      }
    }
    return "";
  }

  bool MayStay(const std::string& module) const {
    return declared_.ignored().MayName(module) ||
           declared_.excluded().MayName(module);
  }

  // Whether the tensor may be a stack of experts with an unknown name. Kernels
  // of convolutions are smaller.
  bool IsStackLike(const ModelTensor& t) const {
    constexpr int64_t kLeast = 16;
    const std::vector<int64_t>& shape = t.stored.shape;
    return shape.size() == 3 && shape[0] > 1 && shape[1] >= kLeast &&
           shape[2] >= kLeast && t.name().ends_with(".weight") &&
           t.name().find("conv") == std::string::npos &&
           MayBeLinear(architecture_.RoleOf(ModuleOf(t.name())));
  }

  // Whether engines count the matrix as a linear layer although it belongs to a
  // tower or is a router.
  bool IsLinearBeside(const ModelTensor& t, Role role, Dialect dialect) const {
    return (role == Role::kVision || role == Role::kRouter) && known_ &&
           dialect != Dialect::kGptOss && t.stored.shape[0] > 1 &&
           !IsTable(ModuleOf(t.name()));
  }

  // Whether the module is an output head that is not tied to the embeddings.
  bool IsHead(const std::string& module) const {
    return module == "lm_head" && known_ &&
           IsHeadTied(model_.config(), model_.model_type()) != true;
  }

  // Whether the model's class or its layers are known.
  const bool known_ = architecture_.known() ||
                      ClassIn(model_.config()).kind == ModelKind::kLanguage;
};

}  // namespace

void LintLists(const LintedModel& linted, Findings* findings) {
  ListRules rules(linted, findings);
  rules.CheckPatterns();
  rules.CheckQuantized();
  rules.CheckLeft();
  rules.CheckTargets();
  rules.CheckAgreement();
  rules.CheckCacheAgreement();
}

}  // namespace quantd::checkpoint
