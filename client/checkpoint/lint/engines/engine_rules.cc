// Rules about models that are complete and consistent, but that engines refuse
// or read differently.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The number of rows and of columns of an FP8 block.
constexpr int64_t kSquare = 128;

// The name under which engines look up the fused module that contains `module`;
// "" if it is not fused.
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

// Whether the module belongs to the indexer of sparse attention.
bool IsIndexer(std::string_view module) {
  const auto [parent, leaf] = SplitModule(module);
  return SplitModule(parent).leaf == "indexer" &&
         (leaf == "weights_proj" || leaf == "wk");
}

class EngineRules : public Rules {
 public:
  using Rules::Rules;

  // Finds what ComfyUI misreads before it looks for scales.
  void CheckComfy() {
    if (IsRenamedByComfy(model_)) {
      Find("kept-plain", "the model",
           "its tensors have the names of diffusers, which ComfyUI renames "
           "without their scales");
    }
    for (const StoredWeight& w : stored_.weights) {
      if (!IsMeasuredByComfy(w.module) || !w.has_four_bits()) continue;
      Find({"kept-plain", "measured"}, w.module,
           "ComfyUI derives the width of the text from the columns of this "
           "weight, and packed codes have fewer");
    }
  }

  void CheckKept() {
    for (const StoredWeight& w : stored_.weights) {
      const Role role = architecture_.RoleOf(w.module);
      if (IsIndexer(w.module)) {
        Find({"kept-plain", "indexer"}, w.module,
             "it belongs to the indexer of sparse attention, but is quantized");
      } else if (IsSplitByEngines(SplitModule(w.module).leaf) &&
                 w.has_four_bits()) {
        Find({"kept-plain", "latent"}, w.module,
             "it is quantized to 4 bits, but engines split this weight of "
             "latent attention while they load it: SGLang reads its codes as "
             "numbers");
      } else if (IsReorderedByEngines(model_.model_type(),
                                      SplitModule(w.module).leaf) &&
                 MayBeLinear(role) && w.layout->format != WeightFormat::kFp8) {
        Find({"kept-plain", "reordered"}, w.module,
             "engines reorder the rows of this weight while they load it: "
             "{}",
             w.layout->format == WeightFormat::kFp8Block
                 ? "they do not reorder its blocks, and vLLM refuses it"
                 : "SGLang does not reorder their scales; vLLM does");
      } else if (role == Role::kRouter || role == Role::kVision ||
                 (role == Role::kEmbedding && IsTable(w.module) &&
                  !IsTarget(w.module))) {
        Find({"kept-plain", Describe(role)}, w.module,
             "it is one of the {}, but is quantized", Describe(role));
      }
    }
  }

  // Finds quantized heads that no group names. vLLM does not count a head as a
  // linear layer.
  void CheckHead() {
    if (declared_.groups().empty()) return;
    for (const StoredWeight& w : stored_.weights) {
      if (SplitModule(w.module).leaf != "lm_head" || IsTarget(w.module)) {
        continue;
      }
      Find({"no-target", "head"}, w.module,
           "the output head is quantized, but no group has its name among its "
           "targets; the class of linear layers does not include it");
    }
  }

  // Finds modules whose group differs from that of the fused module, under
  // whose name engines look up the group.
  void CheckGroups() {
    if (declared_.groups().size() < 2) return;
    for (const StoredWeight& w : stored_.weights) {
      const std::string fused = FusedNameOf(w.module);
      if (fused.empty() || IsExperts(w.module) ||
          GroupFor(fused) == GroupFor(w.module)) {
        continue;
      }
      Find({"no-target", "fused"}, w.module,
           "it is a target of {}, but engines fuse it into {}, which is not",
           GroupFor(w.module)->name, SplitModule(fused).leaf);
    }
  }

  // Finds stacks of experts that are listed as not quantized under the stack's
  // name only. Engines look up each expert by its own name.
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
      Find({"ignore-list", "experts"}, t.name(),
           "it is not quantized and listed as {}, but engines look "
           "for {} in the list",
           SplitModule(module).leaf, first);
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
           "it has one scale for the weight and one for each input token; for "
           "experts, engines support input tokens only with one scale for each "
           "row of the weight");
    }
  }

  // Finds FP8 blocks that would span two members of a fused weight.
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
           "it has {} rows, which is not a multiple of {}, and "
           "engines fuse it with others",
           w.rows, kSquare);
    }
  }

  // Checks listed names for which transformers uses another prefix.
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
                  "the list of modules that are not quantized",
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
    Find({"list-prefix", of}, module,
         "{} names it as the file does, but transformers 5 names "
         "it {}; an expression like re:.*{}$ matches both",
         of, there, SplitModule(module).leaf);
  }

  // The module's name in transformers 5, where the language model is below
  // "model.language_model.", the towers below "model.", and the head below
  // none.
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
    return std::ranges::any_of(declared_.groups(), [&](const DeclaredGroup& g) {
      return g.targets.Names(module) ||
             (SplitModule(module).leaf != "lm_head" &&
              g.targets.Names("Embedding"));
    });
  }

  // The group that names the module, or else the first group that names its
  // class.
  const DeclaredGroup* GroupFor(std::string_view module) const {
    const DeclaredGroup* by_class = nullptr;
    for (const DeclaredGroup& g : declared_.groups()) {
      if (g.targets.Names(module)) return &g;
      if (by_class == nullptr && g.all_linear) by_class = &g;
    }
    return by_class;
  }

  bool old_ = false;  // the file has the names of transformers before version 5
};

}  // namespace

void LintEngines(const LintedModel& linted, Findings* findings) {
  EngineRules rules(linted, findings);
  rules.CheckPrefixes();
  rules.CheckStacks();
  // ComfyUI does not fuse weights.
  if (linted.dialect == Dialect::kComfy) return rules.CheckComfy();
  rules.CheckKept();
  rules.CheckHead();
  rules.CheckGroups();
  rules.CheckExperts();
  rules.CheckSquares();
}

}  // namespace quantd::checkpoint
