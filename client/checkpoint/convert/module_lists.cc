#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weights.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kExperts = "experts";
constexpr std::string_view kOfExperts = ".experts.";

// Names of modules for images and sound in vLLM and SGLang, which rename those
// of the file: HunyuanOCR's "vit" is "visual", Pixtral's "vision_tower" is
// "vision_encoder".
constexpr std::string_view kTowers[] = {
    "visual", "vision_tower", "vision_model", "vision_encoder",
    "vision_language_adapter", "multi_modal_projector", "vpm", "vit_merger",
    "resampler", "audio_tower", "audio_language_adapter", "sound_encoder",
    // The name of PaddleOCR's projector in transformers, and the names below
    // BLIP-2's tower, which vLLM builds without its own name.
    "projector", "encoder"};
// Modules that contain an MTP head in SGLang.
constexpr std::string_view kFurther[] = {"decoder", "mtp_block"};

// Collects the names of the quantized and of the plain modules, as in the file.
class Modules {
 public:
  Modules(const Model& model, const ConversionPlan& plan)
      : model_(model),
        layers_(FactsOf(model.config()).layers),
        heads_(HeadNames(model.config())) {
    for (const FusedWeights& group : plan.groups) {
      for (const Weight& w : group.weights) {
        AddQuantized(w.module);
        taken_.insert(w.role);
      }
    }
    for (const ModelTensor* t : plan.copies) {
      modules_.insert(std::string(SplitModule(t->name()).parent));
    }
  }

  // The quantized modules, and the names that engines look up for quantized
  // experts whatever their names in the file are. Call after Plain().
  std::vector<std::string> Quantized() const {
    const auto stacks_of = [](const auto& modules) {
      std::set<std::string_view> stacks;
      for (const std::string_view name : modules) {
        const size_t at = name.find(kOfExperts);
        if (at == std::string_view::npos) continue;
        stacks.insert(name.substr(0, at + kOfExperts.size()));
      }
      return stacks;
    };
    const auto mixed = stacks_of(seen_);
    std::vector<std::string> names = quantized_;
    for (const std::string& module : quantized_) {
      for (std::string& part : SplitParts(model_.model_type(), module)) {
        names.push_back(std::move(part));
      }
    }
    for (const std::string_view stack : stacks_of(quantized_)) {
      if (mixed.count(stack) > 0) continue;
      for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
        names.push_back(fmt::format("{}0.{}", stack, leaf));
      }
    }
    return names;
  }

  // The modules that are not quantized. A name that ends with kAllBelow stands
  // for all experts of a layer, for which engines have separate names even if
  // the file stores them in one tensor.
  std::vector<std::string> Plain(const ConversionPlan& plan, bool embeddings) {
    for (const LeftOut& left : plan.left_out) {
      // Skips embedding tables. A module with the name of a table but with an
      // index in its path lies inside a layer and is a linear module.
      const NameParts parts = Split(left.module, '.');
      if (left.role == Role::kEmbedding && !embeddings &&
          IsTable(left.module) && std::ranges::none_of(parts, IsIndex)) {
        continue;
      }
      const ModelTensor* t = model_.Find(left.module + ".weight");
      if (t == nullptr) t = model_.Find(left.module);
      const bool stacked = t != nullptr
                               ? IsStacked(*t)
                               : modules_.count(left.module) == 0 &&
                                     !ExpertsAbove(left.module).empty();
      if (!stacked) AddPlain(left.module, left.role);
    }
    for (const ModelTensor* t : plan.copies) {
      if (IsStacked(*t)) AddStack(*t);
    }
    // Engines create a head even if it is tied to the embeddings and in no
    // file.
    if (!has_head_) {
      for (const std::string& head : heads_) Add(head);
    }
    for (std::string& name : renamed_) Add(std::move(name));
    return std::move(plain_);
  }

 private:
  void AddQuantized(const std::string& module) {
    quantized_.push_back(module);
    has_head_ |= IsHead(module);
    for (size_t dot = module.find('.'); dot != std::string::npos;
         dot = module.find('.', dot + 1)) {
      above_.insert(module.substr(0, dot));
    }
  }

  bool IsHead(std::string_view module) const {
    return std::ranges::any_of(heads_, [&](const auto& head) {
      return module == head || module.ends_with('.' + head);
    });
  }

  void AddPlain(const std::string& module, Role role) {
    for (std::string& part : SplitParts(model_.model_type(), module)) {
      Add(std::move(part));
    }
    has_head_ |= IsHead(module);
    // Engines look up all experts of a layer at once.
    std::string experts(ExpertsAbove(module));
    if (const size_t at = module.rfind(".experts.");
        experts.empty() && at != std::string::npos) {
      experts = module.substr(0, at + std::string_view(".experts").size());
    }
    const bool all = !experts.empty() && above_.count(experts) == 0;
    const std::string name = all ? experts + std::string(kAllBelow) : module;
    // If other modules of the role are quantized, engines may give them these
    // names.
    if (taken_.count(role) == 0) AddRenamed(name, role);
    Add(name);
  }

  // Collects the names that engines give to the module. They often rename only
  // tensors, not the names in the lists that they read.
  void AddRenamed(const std::string& module, Role role) {
    const auto [parent, leaf] = SplitModule(module);
    const bool first = renamed_roles_.insert(role).second;
    if (role == Role::kVision && first) {
      for (const std::string_view tower : kTowers) AddTree(tower);
    } else if (role == Role::kRouter &&
               model_.Find(module + ".weight_1") != nullptr) {
      // Engines make two routers of the two matrices: for text and for images.
      for (const char* words : {"text", "vision"}) {
        renamed_.push_back(fmt::format("{}.{}_experts_gate", parent, words));
      }
    } else if (role == Role::kRouter && model_.model_type() == "phimoe") {
      // The name in transformers 5, which vLLM runs for this class.
      renamed_.push_back(
          fmt::format("{}.mlp.router", SplitModule(parent).parent));
    } else if (role == Role::kMultiToken) {
      for (const std::string_view head : kFurther) {
        if (first) AddTree(head);
      }
      if (leaf == "eh_proj") renamed_.emplace_back(leaf);
      AddLayer(module);
    }
  }

  // Collects the name that a module of an MTP head has where the head is a
  // layer after the last. LongCat counts each layer twice.
  void AddLayer(const std::string& module) {
    const NameParts parts = Split(module, '.');
    const auto number = std::ranges::find_if(parts, IsIndex);
    if (layers_ == 0 || number == parts.end() || number + 1 == parts.end()) {
      return;
    }
    const int64_t head = std::stoll(std::string(*number));
    if (head >= layers_) return;
    const bool twice = model_.model_type().starts_with("longcat");
    const auto rest = number + (number[1] == "transformer_layer" ? 2 : 1);
    renamed_.push_back(fmt::format("model.layers.{}.{}",
                                   layers_ * (twice ? 2 : 1) + head,
                                   fmt::join(rest, parts.end(), ".")));
  }

  // Collects everything below the module, unless a quantized module is there.
  void AddTree(std::string_view module) {
    const std::string within = std::string(module) + ".";
    if (std::ranges::none_of(quantized_, [&](const std::string& name) {
          return name.find(within) != std::string::npos;
        })) {
      renamed_.push_back(std::string(module) + std::string(kAllBelow));
    }
  }

  void AddStack(const ModelTensor& tensor) {
    const std::string module(ModuleOf(tensor.name()));
    std::string parent(SplitModule(module).parent);
    if (SplitModule(parent).leaf.find("expert") == std::string_view::npos) {
      Add(module);
      parent += parent.empty() ? "" : ".";
      parent += kExperts;
    }
    if (above_.count(parent) == 0) {
      Add(parent + std::string(kAllBelow));
    } else if (const auto apart = WeightsOf(model_, tensor, /*whole=*/false);
               apart.ok() && !apart->empty()) {
      for (const Weight& w : *apart) Add(w.module);
    } else {
      Add(module);
    }
  }

  void Add(std::string name) {
    if (seen_.insert(name).second) plain_.push_back(std::move(name));
  }

  const Model& model_;
  std::vector<std::string> quantized_;
  std::set<std::string> above_;    // modules that contain quantized modules
  std::set<std::string> modules_;  // modules with tensors that are copied
  std::vector<std::string> plain_;
  std::vector<std::string> renamed_;
  std::set<Role> taken_;  // roles of quantized modules
  std::set<Role> renamed_roles_;
  std::set<std::string> seen_;
  const int64_t layers_;  // 0: unknown
  const std::vector<std::string> heads_;
  bool has_head_ = false;
};

}  // namespace

std::map<ModuleKind, std::vector<std::string>> ModulesOf(
    const ConversionPlan& plan) {
  std::map<ModuleKind, std::vector<std::string>> modules;
  for (const FusedWeights& group : plan.groups) {
    for (const Weight& w : group.weights) {
      modules[{StoredAs(w.layout->format), w.input_amax.has_value()}].push_back(
          w.module);
    }
  }
  return modules;
}

std::vector<std::string> IgnoredExpressions(const Model& model,
                                            const ConversionPlan& plan,
                                            bool embeddings, NameStyle style) {
  Modules modules(model, plan);
  auto plain = modules.Plain(plan, embeddings);
  auto texts = ModuleExpressions(std::move(plain), modules.Quantized(), style);
  if (style == NameStyle::kRegular && plan.leaves_nameless) {
    texts.emplace_back("re:^$");
  }
  return texts;
}

std::vector<std::string> IgnoredNames(const Model& model,
                                      const ConversionPlan& plan,
                                      bool embeddings) {
  bool nested = false;
  for (const auto& [key, value] : model.config().items()) {
    nested |= key.ends_with("_config") && value.is_object();
  }
  auto plain = Modules(model, plan).Plain(plan, embeddings);
  // Adds the names of whole towers: SGLang renames attention inside towers, and
  // also skips everything below a listed module.
  for (const std::string& text :
       IgnoredExpressions(model, plan, embeddings, NameStyle::kGlobs)) {
    std::string_view tower(text);
    if (!nested || !tower.starts_with('*') || !tower.ends_with('*')) continue;
    tower = tower.substr(1, tower.size() - 2);
    if (tower.find_first_of(".*") == std::string_view::npos) {
      plain.emplace_back(tower);
    }
  }
  std::vector<std::string> names;
  for (std::string& name : plain) {
    if (name.ends_with(kAllBelow)) name.resize(name.size() - kAllBelow.size());
    for (std::string& form :
         nested ? NameForms(name) : std::vector<std::string>{name}) {
      names.push_back(std::move(form));
    }
  }
  return names;
}

std::map<ModuleKind, std::vector<std::string>> TargetsOf(
    const Model& model, const ConversionPlan& plan) {
  auto modules = ModulesOf(plan);
  const auto most = std::ranges::max_element(modules, [](auto& a, auto& b) {
    return a.second.size() < b.second.size();
  });
  const auto plain = Modules(model, plan).Plain(plan, /*embeddings=*/true);
  std::set<std::string_view> heads;
  for (const FusedWeights& group : plan.groups) {
    for (const Weight& w : group.weights) {
      if (w.role == Role::kHead) heads.insert(w.module);
    }
  }
  std::map<ModuleKind, std::vector<std::string>> targets;
  for (const auto& [kind, names] : modules) {
    std::vector<std::string> others = plain;
    for (const auto& [other, more] : modules) {
      if (other != kind) others.insert(others.end(), more.begin(), more.end());
    }
    std::vector<std::string> named = names;
    if (kind == most->first) {
      targets[kind] = {"Linear"};
      named.clear();
      for (const std::string& name : names) {
        (heads.count(name) > 0 ? named : others).push_back(name);
      }
    }
    for (std::string& text : ModuleExpressions(
             std::move(named), std::move(others), NameStyle::kRegular)) {
      targets[kind].push_back(std::move(text));
    }
  }
  return targets;
}

}  // namespace quantd::checkpoint
