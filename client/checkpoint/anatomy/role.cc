#include "client/checkpoint/anatomy/role.h"

#include <algorithm>
#include <string>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

// Words that occur only in the names of towers and of the projectors that
// connect them to a language model. '_' separates the words of a name.
constexpr Words kTowerWords = R"(
    vision visual audio image images speech video mm projector resampler
    connector aligner merger abstractor perceiver qformer siglip dinov2
    vqmodel vqvae token2wav code2wav img sound vae codec action adaptor)";
constexpr Words kTowerStarts = "vision visual audio image patch_ sam_";
constexpr Words kTowerNames = "vpm apm multi_modal sound_encoder talker";

constexpr Words kHeads = R"(
    score cls head output_layer embed_out qa_outputs pred_layer
    vocab_transform answer_class v_head value_head)";
constexpr Words kHeadWords = "lm_head classif logits predictions pooler";
constexpr Words kTables =
    "wte wpe shared embed_positions embed_in embd_pos relative_attention_bias";
// Names of heads outside the layers. Inside a layer they name linear modules.
constexpr std::string_view kHeadsBeside[] = {
    "output",  "output_projection", "proj_out",        "ff_out",
    "lm_loss", "decoder",           "vocab_projector", "fc"};
constexpr Words kRouters = "gate shared_expert_gate gating moe_gate";
constexpr Words kGates = "in_proj_ba in_proj_b in_proj_a x_proj dt_proj";

// Names of the list of layers of a language model that has towers beside it and
// no module of its own, such as "language_model", around it.
constexpr Words kLayerLists = R"(
    layers model.layers h transformer.h decoder.layers model.decoder.layers
    blocks transformer.blocks transformer.layers model.transformer.blocks
    gpt_neox.layers transformer.encoder.layers backbone.layers)";

// Modules around the layers of a language model. They distinguish it from an
// audio model whose class has a name with the same ending.
constexpr Words kContainers =
    "model transformer backbone layers layer blocks block h";
constexpr Words kContainerEnds = "encoder decoder _model _layers";

// Module names that only diffusion models have.
constexpr Words kDiffusionParts = R"(
    double_blocks single_blocks joint_blocks diffusion_model adaLN_modulation
    x_embedder t_embedder time_in time_embed time_embedding time_text_embed)";

bool Mentions(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

template <typename Matches>
bool AnyPart(const NameParts& parts, Matches matches) {
  return std::ranges::any_of(parts, matches);
}

bool IsOfTower(std::string_view part) {
  return Has(kTowerNames, part) || StartsWithOneOf(part, kTowerStarts) ||
         AnyPart(Split(part, '_'),
                 [](std::string_view word) { return Has(kTowerWords, word); });
}

bool IsOfFurtherToken(std::string_view part) {
  return Has(Words("eagle_module speculator mtp eh_proj"), part) ||
         StartsWithOneOf(part,
                         Words("hydra_head draft_model mtp_ nextn medusa"));
}

// Whether the layer's number is beyond the last layer: DeepSeek stores its MTP
// head so.
bool IsBeyond(const NameParts& parts, int64_t layers) {
  for (size_t i = 0; layers > 0 && i + 1 < parts.size(); ++i) {
    if (IsIndex(parts[i + 1]) && Has(Words("layers h blocks"), parts[i])) {
      return std::stoll(std::string(parts[i + 1])) >= layers;
    }
  }
  return false;
}

bool IsOfLanguage(std::string_view part) {
  return Mentions(part, "language") || part == "text_model" ||
         part == "text_decoder" ||
         AnyPart(Split(part, '_'), [](std::string_view word) {
           return word.ends_with("llm") && !word.ends_with("2llm");
         });
}

// Whether the modules above the layers have names that language models use.
// `type` is the model_type.
bool AreLayersOfText(const NameParts& parts, std::string_view type) {
  return std::all_of(parts.begin(), std::ranges::find_if(parts, IsIndex),
                     [&](std::string_view p) {
                       return Has(kContainers, p) || IsOfLanguage(p) ||
                              EndsWithOneOf(p, kContainerEnds) ||
                              Mentions(type, p);
                     });
}

// The name of the list that contains the module: "model.layers" for
// "model.layers.3.mlp". Empty if the module is in no list.
std::string_view ListOf(std::string_view module, const NameParts& parts) {
  size_t end = 0;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (i > 0 && IsIndex(parts[i])) return module.substr(0, end - 1);
    end += parts[i].size() + 1;
  }
  return "";
}

// Matches "mod", "mod_x", "img_mod", "modC" and "modulation".
bool IsModulation(std::string_view part) {
  return Mentions(part, "mod") && !Mentions(part, "model");
}

bool IsNormName(std::string_view leaf) {
  return Mentions(leaf, "norm") || Mentions(leaf, "Norm") ||
         leaf.starts_with("ln_");
}

// The role according to the module's name alone.
Role NamedRole(const NameParts& parts) {
  const std::string_view leaf = parts.back();
  if (leaf != "embed_out" && AnyPart(parts, [](std::string_view p) {
        return (Mentions(p, "embed") && p != "embedding_model") ||
               p.ends_with("_emb") || Has(kTables, p);
      })) {
    return Role::kEmbedding;
  }
  if (IsNormName(leaf)) return Role::kNorm;
  if (AnyPart(parts, [](std::string_view p) {
        return p.starts_with("index") || p.ends_with("_indexer") ||
               p == "compressor";
      })) {
    return Role::kIndexer;
  }
  // RWKV's gate, which multiplies the output of attention.
  if (leaf == "gate" && parts.size() > 1 &&
      parts[parts.size() - 2] == "attention") {
    return Role::kGate;
  }
  if (leaf == "wg" || AnyPart(parts, [](std::string_view p) {
        return p.starts_with("router") || p.ends_with("_router") ||
               Has(kRouters, p);
      })) {
    return Role::kRouter;
  }
  if (Has(kGates, leaf)) return Role::kGate;
  if (AnyPart(parts,
              [](std::string_view p) {
                return Has(kHeads, p) || HoldsOneOf(p, kHeadWords);
              }) ||
      (!AnyPart(parts, IsIndex) &&
       (Has(kHeadsBeside, leaf) || AnyPart(parts, [](std::string_view p) {
          return p.ends_with("_head");
        })))) {
    return Role::kHead;
  }
  return IsLanguageLinear(parts) ? Role::kLinear : Role::kUnknown;
}

// Only modules in a block that do not process a condition are ordinary layers.
Role RoleInDiffusion(const NameParts& parts) {
  const std::string_view leaf = parts.back();
  if (IsNormName(leaf)) return Role::kNorm;
  if (!IsInDiffusionBlock(parts) || AnyPart(parts, [](std::string_view p) {
        return Mentions(p, "embed") || IsModulation(p) ||
               StartsWithOneOf(p, Words("adaln adaLN norm emb_ time_"));
      })) {
    return Role::kCondition;
  }
  if (leaf == "gate") return Role::kRouter;
  return IsDiffusionLinear(parts) ? Role::kLinear : Role::kUnknown;
}

}  // namespace

std::string_view Describe(Role role) {
  switch (role) {
    case Role::kLinear:
      return "linear layers";
    case Role::kUnknown:
      return "weights with names that are not known for linear layers";
    case Role::kHead:
      return "output heads";
    case Role::kEmbedding:
      return "embeddings";
    case Role::kNorm:
      return "norms";
    case Role::kRouter:
      return "routers";
    case Role::kVision:
      return "vision and audio layers";
    case Role::kMultiToken:
      return "MTP and draft heads";
    case Role::kIndexer:
      return "sparse-attention indexers";
    case Role::kGate:
      return "gates of linear attention and layers of Mamba-1";
    case Role::kCondition:
      return "modulations and layers outside the blocks of a diffusion model";
  }
  return "";
}

bool IsTable(std::string_view module) {
  const std::string_view leaf = SplitModule(module).leaf;
  if (Has(kTables, leaf) || leaf.starts_with("embed_tokens")) return true;
  return EndsWithOneOf(leaf, Words("embeddings embedding embed emb"));
}

Roles Roles::Of(const Model& model) {
  Roles r;
  const ConfigFacts facts = FactsOf(model.config());
  r.class_ = ClassIn(model.config());
  r.type_ = model.model_type();
  r.layers_ = facts.layers;
  r.draft_heads_ = facts.draft_heads;
  r.nested_towers_ = facts.nested_towers;
  ModelKind& kind = r.class_.kind;
  const bool unnamed = kind == ModelKind::kUnnamed;
  bool named = false;
  bool thinker = false;
  bool listed = false;
  for (const ModelTensor& t : model.tensors()) {
    const NameParts parts = Split(t.name(), '.');
    // Mamba-2 has no x_proj.
    const ModuleName name = SplitModule(ModuleOf(t.name()));
    if (name.leaf.starts_with("x_proj")) r.mamba_.emplace(name.parent);
    if (unnamed && AnyPart(parts, [](std::string_view p) {
          return Has(kDiffusionParts, p) || p.ends_with("transformer_blocks");
        })) {
      kind = ModelKind::kDiffusion;
    }
    if (AnyPart(parts, IsOfTower)) continue;
    const std::string_view list = ListOf(t.name(), parts);
    named |= !list.empty() && AnyPart(parts, IsOfLanguage);
    thinker |= t.name().starts_with("thinker.model.");
    listed |= Has(kLayerLists, list);
  }
  if (facts.towers || kind == ModelKind::kHolder) {
    r.place_ = named     ? Place::kNamed
               : thinker ? Place::kThinker
               : listed  ? Place::kLayers
                         : Place::kEverywhere;
  }
  if (kind == ModelKind::kUnnamed && !r.AreOfLanguage(model)) {
    kind = ModelKind::kOther;
  }
  return r;
}

bool Roles::AreOfLanguage(const Model& model) const {
  return std::ranges::all_of(model.tensors(), [&](const auto& t) {
    if (t.stored.shape.size() != 2 || !t.name().ends_with(".weight")) {
      return true;
    }
    const std::string_view module = ModuleOf(t.name());
    const Role role = RoleOf(module);
    if (role != Role::kLinear) return role != Role::kUnknown;
    const std::string_view list =
        SplitModule(ListOf(module, Split(module, '.'))).leaf;
    return list == "layers" || list == "h";
  });
}

bool Roles::IsNestedTower(const NameParts& parts) const {
  for (const std::string_view part : parts) {
    if (IsIndex(part)) break;
    for (const std::string& tower : nested_towers_) {
      if (part == tower || part.starts_with(tower + "_")) return true;
    }
  }
  return false;
}

Role Roles::RoleOf(std::string_view module) const {
  const NameParts parts = Split(module, '.');
  if (class_.kind == ModelKind::kDiffusion) return RoleInDiffusion(parts);
  if (AnyPart(parts, IsOfTower) || IsNestedTower(parts)) return Role::kVision;
  Role named = NamedRole(parts);
  // Engines do not quantize the layers of Mamba-1.
  if (named == Role::kLinear &&
      mamba_.find(SplitModule(module).parent) != mamba_.end()) {
    named = Role::kGate;
  }
  if (named == Role::kLinear && class_.by_end && place_ == Place::kEverywhere &&
      !AreLayersOfText(parts, type_)) {
    named = Role::kUnknown;
  }
  const bool further = draft_heads_ || AnyPart(parts, IsOfFurtherToken);
  // Projectors between models are outside the lists of layers.
  const bool outside =
      (place_ == Place::kEverywhere && !nested_towers_.empty() &&
       !AnyPart(parts, IsIndex)) ||
      (place_ == Place::kNamed && !AnyPart(parts, IsOfLanguage)) ||
      (place_ == Place::kThinker && !module.starts_with("thinker.model.")) ||
      (place_ == Place::kLayers && !Has(kLayerLists, ListOf(module, parts)));
  if (outside && !further && MayBeLinear(named)) return Role::kVision;
  return further || IsBeyond(parts, layers_) ? Role::kMultiToken : named;
}

}  // namespace quantd::checkpoint
