#include "client/checkpoint/anatomy/nameless.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/pattern.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Layers that an engine gives its description of the quantization, but no
// `prefix`.
struct NamelessRow {
  Words classes;
  std::string_view engine;
  std::string_view modules;  // a pattern for their names in the file
  bool head = false;
};
constexpr NamelessRow kNameless[] = {
    {"Qwen2ForRewardModel Qwen2ForProcessRewardModel", "vLLM", "*score*"},
    {"DeepseekForCausalLM DeepseekOCRForCausalLM DeepseekOCR2ForCausalLM"
     " UnlimitedOCRForCausalLM",
     "vLLM", "*self_attn.?_proj"},
    {"MiniCPM3ForCausalLM", "vLLM", "*.q_a_proj"},
    {"Molmo2ForConditionalGeneration", "vLLM", "*transformer.blocks.*"},
    {"Lfm2VlForConditionalGeneration DeepseekVL2ForCausalLM"
     " DeepseekVLV2ForCausalLM",
     "SGLang", "*projector*"},
    {"VoxtralForConditionalGeneration", "SGLang", "*audio_tower*self_attn.*"},
    {"Qwen3OmniMoeForConditionalGeneration Qwen3ASRForConditionalGeneration",
     "SGLang", "re:.*audio_tower\\.(conv_out|proj1|proj2)$"},
    {"WhisperForConditionalGeneration", "SGLang", "*attn.*"},
    {"FalconH1ForCausalLM", "SGLang", "*self_attn.*"},
    {"PersimmonForCausalLM PhiForCausalLM", "SGLang", "*.layers.*"},
    {"AfmoeForCausalLM ExaoneMoeForCausalLM ExaoneMoEForCausalLM"
     " Molmo2ForConditionalGeneration NemotronParseForConditionalGeneration"
     " Qwen3OmniMoeForConditionalGeneration",
     "vLLM", "*lm_head", true},
    {"CohereAsrForConditionalGeneration", "vLLM", "*proj_out", true},
    {"BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM"
     " BailingMoeV3VLForConditionalGeneration GPTJForCausalLM"
     " HunYuanMoEV1ForCausalLM HunYuanDenseV1ForCausalLM PersimmonForCausalLM"
     " PhiForCausalLM SolarForCausalLM",
     "SGLang", "*lm_head", true},
};

// Classes whose unquantized layers vLLM and SGLang look up by a name that
// DeepSeek's list has. vLLM compares these names for equality, and many other
// classes rename layers or fuse them in a way that the list cannot state.
constexpr Words kListedByName =
    "DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekV32ForCausalLM"
    " Gemma3ForConditionalGeneration Glm4MoeForCausalLM GptOssForCausalLM"
    " LlamaForCausalLM LlavaForConditionalGeneration MiMoForCausalLM"
    " MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM"
    " Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM"
    " Qwen3NextForCausalLM Qwen3VLForConditionalGeneration"
    " Qwen3VLMoeForConditionalGeneration";

// An unquantized layer that engines may look for under another name than
// DeepSeek's list has; "" if none. Engines never quantize the other roles.
std::string RenamedIn(const Model& model, const ConversionPlan& plan) {
  if (!model.config().contains("architectures") ||
      Has(kListedByName, ClassIn(model.config()).name)) {
    return "";
  }
  for (const LeftOut& left : plan.left_out) {
    if (left.role != Role::kHead && left.role != Role::kEmbedding &&
        left.role != Role::kNorm && left.role != Role::kRouter) {
      return left.module;
    }
  }
  return "";
}

// The format of a weight, and whether its inputs have a scale.
using Kind = std::pair<WeightFormat, bool>;

// The layers of a row in a plan.
struct Nameless {
  const NamelessRow* row = nullptr;
  std::string plain;      // one that is not quantized; "" if none
  std::string other;      // one in another format than most; "" if none
  std::string quantized;  // one that is quantized; "" if none
};

std::vector<Nameless> LayersIn(const Model& model, const ConversionPlan& plan) {
  const std::string name = ClassIn(model.config()).name;
  std::map<Kind, size_t> kinds;
  const auto kind_of = [](const Weight& w) {
    return Kind{StoredAs(w.layout->format), w.input_amax.has_value()};
  };
  for (const FusedWeights& group : plan.groups) {
    for (const Weight& w : group.weights) ++kinds[kind_of(w)];
  }
  const auto most = std::ranges::max_element(
      kinds, [](auto& a, auto& b) { return a.second < b.second; });
  std::vector<Nameless> found;
  for (const NamelessRow& row : kNameless) {
    if (!Has(row.classes, name)) continue;
    const auto pattern = Pattern::Parse(row.modules);
    Nameless layers = {&row, "", "", ""};
    for (const LeftOut& left : plan.left_out) {
      const ModelTensor* t = model.Find(left.module + ".weight");
      if (t == nullptr || t->stored.shape.size() != 2) continue;
      if (pattern->Matches(left.module)) layers.plain = left.module;
    }
    for (const FusedWeights& group : plan.groups) {
      for (const Weight& w : group.weights) {
        if (!pattern->Matches(w.module)) continue;
        layers.quantized = w.module;
        if (kind_of(w) != most->first) layers.other = w.module;
      }
    }
    // Engines make a head even if no file has it.
    if (row.head && layers.quantized.empty() && layers.plain.empty()) {
      layers.plain = row.modules.substr(1);
    }
    found.push_back(std::move(layers));
  }
  return found;
}

}  // namespace

std::string_view NamelessIn(const Model& model, std::string_view module,
                            Dialect dialect) {
  const std::string name = ClassIn(model.config()).name;
  for (const NamelessRow& row : kNameless) {
    if (Has(row.classes, name) &&
        (!row.head || dialect == Dialect::kModelOpt) &&
        Pattern::Parse(row.modules)->Matches(module)) {
      return row.engine;
    }
  }
  return "";
}

absl::Status CheckNameless(const Model& model, ConversionPlan* plan) {
  const bool lists = plan->dialect == Dialect::kCompressedTensors;
  const bool own = plan->dialect == Dialect::kModelOpt;
  if (!lists && !own && plan->dialect != Dialect::kDeepSeek) {
    return absl::OkStatus();
  }
  if (plan->dialect == Dialect::kDeepSeek) {
    if (const std::string module = RenamedIn(model, *plan); !module.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {} stays unquantized, and vLLM may look for it under another "
          "name than DeepSeek's list of modules has, as it does in many "
          "classes like {}; use --dialect compressed-tensors",
          model.path(), module, ClassIn(model.config()).name));
    }
  }
  for (const Nameless& n : LayersIn(model, *plan)) {
    plan->leaves_nameless |= !n.row->head && !n.plain.empty();
    const auto refuse = [&](const std::string& module, std::string_view why) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {} builds {} of {} without a name, so that no list of modules "
          "matches it; {}",
          model.path(), n.row->engine, module, ClassIn(model.config()).name,
          why));
    };
    // compressed-tensors quantizes heads only if they are named, and DeepSeek's
    // FP8 has no heads.
    if (lists && n.row->head) {
      if (n.quantized.empty()) continue;
      return refuse(n.quantized, "leave it unquantized");
    }
    if (!lists && !n.plain.empty() && (own || !n.row->head)) {
      return refuse(n.plain, "use --dialect compressed-tensors");
    }
    if (lists && !n.plain.empty() && !n.quantized.empty()) {
      return refuse(
          n.plain, fmt::format("quantize it like {}, or neither", n.quantized));
    }
    if (!n.other.empty()) {
      return refuse(n.other, "give it the format of most weights");
    }
  }
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
