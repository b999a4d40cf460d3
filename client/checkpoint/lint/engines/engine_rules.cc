// Rules about complete, consistently described models that engines refuse or
// read differently.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/check/layer_names.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Rows of an FP8 square that share a scale.
constexpr int64_t kSquare = 128;

// The name by which engines look up a fused module.
std::string FusedNameOf(std::string_view module) {
  const ModuleName split = SplitModule(module);
  const std::string_view leaf = split.leaf;
  const auto named = [&](std::string_view name) {
    return fmt::format("{}.{}", split.parent, name);
  };
  if (leaf == "q_proj" || leaf == "k_proj" || leaf == "v_proj") {
    return named("qkv_proj");
  }
  return leaf == "gate_proj" || leaf == "up_proj" ? named("gate_up_proj") : "";
}

// Whether the module selects tokens for sparse attention.
bool IsIndexer(std::string_view module) {
  const auto [parent, leaf] = SplitModule(module);
  return SplitModule(parent).leaf == "indexer" &&
         (leaf == "weights_proj" || leaf == "wk");
}

class EngineRules : public Rules {
 public:
  using Rules::Rules;

  void CheckKept() {
    for (const StoredWeight& w : stored_.weights) {
      const Role role = architecture_.RoleOf(w.module);
      if (IsIndexer(w.module)) {
        Find("kept-plain", w.module,
             "of the indexer of a sparse attention, and quantized", "indexer");
      } else if (role == Role::kRouter || role == Role::kVision ||
                 (role == Role::kEmbedding && IsTable(w.module) &&
                  !IsTarget(w.module))) {
        Find("kept-plain", w.module,
             fmt::format("one of the {}, and quantized", Describe(role)),
             Describe(role));
      }
    }
  }

  // vLLM does not count a head as a linear layer.
  void CheckHead() {
    if (declared_.groups().empty()) return;
    for (const StoredWeight& w : stored_.weights) {
      if (SplitModule(w.module).leaf != "lm_head" || IsTarget(w.module)) {
        continue;
      }
      Find("no-target", w.module,
           "an output head, quantized, and no group has its name as a target, "
           "but at most the class of linear layers",
           "head");
    }
  }

  // If several groups match, engines use the one that names the whole class.
  void CheckGroups() {
    if (declared_.groups().size() < 2) return;
    for (const StoredWeight& w : stored_.weights) {
      const std::string fused = FusedNameOf(w.module);
      if (fused.empty() || IsExperts(w.module) ||
          GroupFor(fused) == GroupFor(w.module)) {
        continue;
      }
      Find("no-target", w.module,
           fmt::format("{} has it as a target, and not {}, for which engines "
                       "ask that fuse it",
                       GroupFor(w.module)->name, SplitModule(fused).leaf),
           "fused");
    }
  }

  // Engines look experts up one by one, even if a file has them in one tensor.
  void CheckStacks() {
    if (declared_.dialect() != Dialect::kCompressedTensors) return;
    for (const ModelTensor& t : model_.tensors()) {
      const std::string_view module = ModuleOf(t.name());
      const std::string_view parent = SplitModule(module).parent;
      const bool named =
          SplitModule(parent).leaf.find("expert") != std::string_view::npos;
      const std::string first =
          fmt::format("{}{}.0.gate_proj", parent, named ? "" : ".experts");
      if (!IsStacked(t) || IsPart(t) || !declared_.ignored().MayName(module) ||
          declared_.ignored().Names(first)) {
        continue;
      }
      Find("ignore-list", t.name(),
           fmt::format("not quantized, and on the list as {}, where "
                       "engines ask for {}",
                       SplitModule(module).leaf, first),
           "experts");
    }
  }

  void CheckExperts() {
    for (const StoredWeight& w : stored_.weights) {
      if (w.layout->format != WeightFormat::kFp8 || !IsExperts(w.module)) {
        continue;
      }
      const DeclaredGroup* group = declared_.GroupOf(w.module);
      const Json* inputs =
          group ? Member(group->json, "input_activations") : nullptr;
      if (TextOf(Member(inputs, "strategy")) != "token") continue;
      Find("experts-scheme", w.module,
           "one scale a weight, and inputs by tokens: for experts engines have "
           "one scale a row with that, or one scale for inputs, too",
           "");
    }
  }

  // A square of the joined weight could span two of its members.
  void CheckSquares() {
    std::map<std::string, size_t> members;
    for (const StoredWeight& w : stored_.weights) {
      ++members[KeyOf(w)];
    }
    for (const StoredWeight& w : stored_.weights) {
      if (w.layout->format != WeightFormat::kFp8Block ||
          w.rows % kSquare == 0 || KeyOf(w).empty() || members[KeyOf(w)] < 2 ||
          SplitModule(w.module).leaf == kLastOfFused ||
          KeyOf(w).find("#k=") != std::string::npos) {
        continue;
      }
      Find("fused-squares", w.module,
           fmt::format("{} rows, no multiple of {}, and engines fuse it with "
                       "others",
                       w.rows, kSquare),
           "");
    }
  }

  // Checks names to which transformers gives another prefix.
  void CheckPrefixes() {
    const Json& config = model_.config();
    const Json* text = Member(&config, "text_config");
    if (declared_.dialect() != Dialect::kCompressedTensors || text == nullptr ||
        !text->is_object() || Member(&config, "auto_map") != nullptr) {
      return;
    }
    for (const ModelTensor& t : model_.tensors()) {
      const std::string_view module = ModuleOf(t.name());
      old_ = old_ || module.starts_with("language_model.") ||
             (!module.starts_with("model.") &&
              architecture_.RoleOf(module) == Role::kVision);
    }
    for (const ModelTensor& t : model_.tensors()) {
      if (t.stored.shape.size() < 2 || IsPart(t)) continue;
      CheckPrefix(declared_.ignored(),
                  "the list of those that are not "
                  "quantized",
                  std::string(ModuleOf(t.name())));
    }
    for (const StoredWeight& w : stored_.weights) {
      for (const DeclaredGroup& g : declared_.groups()) {
        CheckPrefix(g.targets, g.name, w.module);
      }
    }
  }

 private:
  void CheckPrefix(const ModuleList& list, const std::string& of,
                   const std::string& module) {
    const std::string there = NameThere(module);
    if (there == module || !list.Names(module) || list.Names(there)) return;
    Find("list-prefix", module,
         fmt::format("{} has it as the file does, and to transformers 5 it is "
                     "{}; an expression like re:.*{}$ is both",
                     of, there, SplitModule(module).leaf),
         of);
  }

  // The name in transformers since version 5: modules below "language_model."
  // or at the top are below "model.".
  std::string NameThere(const std::string& module) const {
    constexpr std::string_view kLanguage = "language_model.";
    constexpr std::string_view kText = "model.";
    const std::string_view name = module;
    if (!old_ || name.starts_with("model.language_model.") ||
        name.starts_with("lm_head")) {
      return module;
    }
    if (name.starts_with(kLanguage)) {
      const std::string_view rest = name.substr(kLanguage.size());
      return rest.starts_with(kText) ? fmt::format("model.{}{}", kLanguage,
                                                   rest.substr(kText.size()))
                                     : std::string(rest);
    }
    if (!name.starts_with(kText)) return fmt::format("{}{}", kText, name);
    return architecture_.RoleOf(name) == Role::kVision
               ? module
               : fmt::format("model.{}{}", kLanguage,
                             name.substr(kText.size()));
  }

  std::string KeyOf(const StoredWeight& w) const {
    return architecture_.FusionKey(w.module, w.cols);
  }

  bool IsTarget(std::string_view module) const {
    return std::any_of(declared_.groups().begin(), declared_.groups().end(),
                       [&](const DeclaredGroup& g) {
                         return g.targets.Names(module) ||
                                (SplitModule(module).leaf != "lm_head" &&
                                 g.targets.Names("Embedding"));
                       });
  }

  // The group by the module's name, or else by its class.
  const DeclaredGroup* GroupFor(std::string_view module) const {
    const DeclaredGroup* by_class = nullptr;
    for (const DeclaredGroup& g : declared_.groups()) {
      if (g.targets.Names(module)) return &g;
      if (by_class == nullptr && g.all_linear) by_class = &g;
    }
    return by_class;
  }

  bool old_ = false;  // names as in transformers before 5
};

}  // namespace

void LintEngines(const LintedModel& linted, Findings* findings) {
  EngineRules rules(linted, findings);
  rules.CheckPrefixes();
  rules.CheckStacks();
  // ComfyUI fuses nothing and takes weights as they are.
  if (linted.dialect == Dialect::kComfy) return;
  rules.CheckKept();
  rules.CheckHead();
  rules.CheckGroups();
  rules.CheckExperts();
  rules.CheckSquares();
}

}  // namespace quantd::checkpoint
