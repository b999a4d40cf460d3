#include "client/quantctl/models/engines.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/stacked.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::ConversionPlan;
using checkpoint::Json;
using checkpoint::Model;
using checkpoint::ModelTensor;
using checkpoint::Role;

// The engines that were run.
constexpr EngineTried kVllmH200 = {"vLLM", "0.26.0 on an H200"};
constexpr EngineTried kVllmCpu = {"vLLM", "0.32.0, its loader on a CPU"};
constexpr EngineTried kSglangCpu = {"SGLang", "0.5.23, its loader on a CPU"};
constexpr EngineTried kTransformersCpu = {"transformers", "5.23 on a CPU"};
constexpr EngineTried kTensorRtRead = {"TensorRT-LLM",
                                       "about 1.0, read and not run"};
constexpr EngineTried kComfy = {"ComfyUI", "none"};
// Texts of several rows.
constexpr char kNoScales[] =
    "it reads the codes of attention layers as weights, without their scales";
constexpr char kNoScheme[] =
    "No compressed-tensors compatible scheme was found";
constexpr char kTriedImages[] =
    "Qwen2_5_VLForConditionalGeneration, Gemma3ForConditionalGeneration";
constexpr char kTriedExperts[] =
    "Qwen3MoeForCausalLM, MixtralForCausalLM, DeepseekV3ForCausalLM";
constexpr char kWholeSquares[] =
    "fp8_block only if fused members have multiples of 128 rows";
constexpr char kAllFormats[] =
    "nvfp4, fp8, fp8_dynamic, fp8_block, mxfp8, mxfp4";

// The first matching row of an engine applies. Rows with real kernels therefore
// precede rows with loaders only, and rows for one architecture precede general
// rows.
constexpr EngineRun kRuns[] = {
    {kVllmCpu, "compressed-tensors",
     "nvfp4, fp8, fp8_dynamic, fp8_block, mxfp8, mxfp4, fp8 with --input-amax",
     "experts", "gpt-oss", "loaded",
     "attention only; experts are not quantized", "GptOssForCausalLM"},
    {kVllmCpu, "compressed-tensors", "nvfp4, mxfp4", "experts", "DeepSeek-V3",
     "loaded", "", "DeepseekV3ForCausalLM"},
    {kVllmCpu, "modelopt", "nvfp4", "experts", "DeepSeek-V3", "loaded", "",
     "DeepseekV3ForCausalLM"},
    // Runs of whole engines with their own kernels.
    {kVllmH200, "compressed-tensors", kAllFormats, "dense", "Llama", "ran"},
    {kVllmH200, "modelopt", "nvfp4, mxfp8, fp8", "dense", "Llama", "ran"},
    {kVllmH200, "deepseek", "fp8_block", "dense", "Llama", "ran"},
    {kVllmH200, "compressed-tensors", "nvfp4, mxfp4", "experts", "Qwen3-MoE",
     "ran"},
    {kVllmH200, "modelopt", "nvfp4", "experts", "Qwen3-MoE", "ran"},
    {kVllmH200, "gpt-oss", "mxfp4", "experts", "gpt-oss", "ran"},
    // Runs of loaders only, with PyTorch's kernels.
    {kVllmCpu, "compressed-tensors", "fp8_dynamic and nvfp4", "dense",
     "Llama, Qwen3", "loaded"},
    {kVllmCpu, "compressed-tensors",
     "fp8 with --input-amax, fp8_dynamic, fp8_block, mxfp8, fp8_dynamic and "
     "nvfp4",
     "experts", "Qwen3-MoE, Mixtral, DeepSeek-V3", "loaded", kWholeSquares},
    {kVllmCpu, "modelopt", "fp8 with --input-amax, mxfp8", "experts",
     "Qwen3-MoE, Mixtral, gpt-oss, DeepSeek-V3", "loaded"},
    {kVllmCpu, "deepseek", "fp8_block", "experts",
     "Qwen3-MoE, Mixtral, gpt-oss, DeepSeek-V3", "loaded"},
    {kVllmCpu, "compressed-tensors",
     "nvfp4, fp8, fp8_dynamic, fp8_block, mxfp8, mxfp4, fp8_dynamic and nvfp4",
     "images", "Qwen2.5-VL, LLaVA, Gemma 3", "loaded"},
    {kVllmCpu, "modelopt", "nvfp4, fp8, mxfp8", "images",
     "Qwen2.5-VL, LLaVA, Gemma 3", "loaded"},
    {kVllmCpu, "deepseek", "fp8_block", "images", "Qwen2.5-VL, LLaVA, Gemma 3",
     "loaded"},
    {kSglangCpu, "compressed-tensors",
     "nvfp4, fp8, fp8_dynamic, fp8_block, mxfp8, mxfp4, fp8 with --input-amax",
     "experts", "gpt-oss", "wrong", kNoScales, "GptOssForCausalLM"},
    {kSglangCpu, "modelopt", "nvfp4, fp8 with --input-amax, mxfp8", "experts",
     "gpt-oss", "wrong", kNoScales, "GptOssForCausalLM"},
    {kSglangCpu, "deepseek", "fp8_block", "experts", "gpt-oss", "wrong",
     kNoScales, "GptOssForCausalLM"},
    {kSglangCpu, "gpt-oss", "mxfp4", "experts", "gpt-oss", "loaded"},
    {kSglangCpu, "compressed-tensors", "mxfp8, mxfp4", "dense", "Llama, Qwen3",
     "refused", kNoScheme},
    {kSglangCpu, "compressed-tensors", "mxfp8, mxfp4", "experts",
     "Qwen3-MoE, Mixtral, DeepSeek-V3", "refused", kNoScheme},
    {kSglangCpu, "compressed-tensors", "mxfp8, mxfp4", "images",
     "Qwen2.5-VL, Gemma 3", "refused", kNoScheme, kTriedImages},
    {kSglangCpu, "compressed-tensors",
     "nvfp4, fp8, fp8_dynamic, fp8_block, fp8_dynamic and nvfp4", "dense",
     "Llama, Qwen3", "loaded", kWholeSquares},
    {kSglangCpu, "compressed-tensors",
     "nvfp4, fp8 with --input-amax, fp8_dynamic, fp8_block, fp8_dynamic and "
     "nvfp4",
     "experts", "Qwen3-MoE, Mixtral", "loaded", "",
     "Qwen3MoeForCausalLM, MixtralForCausalLM"},
    {kSglangCpu, "compressed-tensors",
     "fp8_dynamic, fp8_block, fp8_dynamic and nvfp4", "experts", "DeepSeek-V3",
     "loaded", "", "DeepseekV3ForCausalLM"},
    {kSglangCpu, "compressed-tensors", "nvfp4, fp8 with --input-amax",
     "experts", "DeepSeek-V3", "refused",
     "an assertion fails: it fuses q_a_proj and kv_a_proj_with_mqa, which "
     "gives two global scales for one parameter",
     "DeepseekV3ForCausalLM"},
    {kSglangCpu, "compressed-tensors",
     "nvfp4, fp8, fp8_dynamic, fp8_block, fp8_dynamic and nvfp4", "images",
     "Qwen2.5-VL, Gemma 3", "loaded", "", kTriedImages},
    {kSglangCpu, "modelopt", "nvfp4, fp8", "dense", "Llama, Qwen3", "loaded"},
    {kSglangCpu, "modelopt", "mxfp8", "dense", "Llama", "wrong",
     "it looks for weight_scale_inv and leaves the scales uninitialized",
     "LlamaForCausalLM"},
    {kSglangCpu, "modelopt", "mxfp8", "dense", "Qwen3", "loaded", "",
     "Qwen3ForCausalLM"},
    {kSglangCpu, "modelopt", "nvfp4, fp8 with --input-amax, mxfp8", "experts",
     "Qwen3-MoE, Mixtral, DeepSeek-V3", "loaded", "", kTriedExperts},
    {kSglangCpu, "modelopt", "nvfp4, fp8", "images", "Qwen2.5-VL, Gemma 3",
     "loaded", "", kTriedImages},
    {kSglangCpu, "modelopt", "mxfp8", "images", "Qwen2.5-VL, Gemma 3", "wrong",
     "it looks for weight_scale_inv. It also treats towers as quantized, "
     "because it compares the expressions of the ignore list as names",
     kTriedImages},
    {kSglangCpu, "deepseek", "fp8_block", "dense", "Llama", "wrong",
     "it renames weight_scale_inv and leaves the scales uninitialized",
     "LlamaForCausalLM"},
    {kSglangCpu, "deepseek", "fp8_block", "dense", "Qwen3", "loaded", "",
     "Qwen3ForCausalLM"},
    {kSglangCpu, "deepseek", "fp8_block", "experts",
     "Qwen3-MoE, Mixtral, DeepSeek-V3", "loaded", "", kTriedExperts},
    {kSglangCpu, "deepseek", "fp8_block", "images", "Qwen2.5-VL, Gemma 3",
     "loaded", "", kTriedImages},
    {kTransformersCpu, "compressed-tensors", kAllFormats, "dense", "Llama",
     "ran"},
    {kTransformersCpu, "compressed-tensors", kAllFormats, "encoder", "MiniLM",
     "ran"},
    {kTransformersCpu, "compressed-tensors", "nvfp4", "experts", "Qwen3-MoE",
     "wrong", "the output is noise, also for files of llm-compressor"},
    {kTransformersCpu, "compressed-tensors", "fp8_block, mxfp8", "experts",
     "Qwen3-MoE", "refused",
     "We encountered some issues during automatic conversion of the weights"},
    {kTensorRtRead, "modelopt", "nvfp4, mxfp8", "dense", "none", "not run",
     "its QuantAlgo lacks W4A16_NVFP4 (nvfp4 without --input-amax) and MXFP8"},
    {kComfy, "comfy", "nvfp4", "other", "none", "not run",
     "the tensor classes of comfy-kitchen 0.2.40 read the files"},
};
// End of the table.

// Names of modules within layers in the models that were tried, without
// numbers.
constexpr Words kTried = R"(
    self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj
    self_attn.q_a_proj self_attn.q_b_proj self_attn.kv_b_proj
    self_attn.kv_a_proj_with_mqa mlp.gate_proj mlp.up_proj mlp.down_proj
    shared_experts.gate_proj shared_experts.up_proj shared_experts.down_proj
    experts.gate_proj experts.up_proj experts.down_proj experts.gate_up_proj
    experts.w1 experts.w2 experts.w3 self.query self.key self.value
    output.dense intermediate.dense)";

// Whether the tried models have a tensor like this, so that engines load it.
bool IsLikeTried(const ModelTensor& t, Role role, bool text) {
  if (!checkpoint::WrapperOf(t.name()).empty()) return false;
  if (t.stored.shape.size() < 2) return true;
  if (role == Role::kNorm) return false;
  const auto [parent, leaf] =
      checkpoint::SplitModule(checkpoint::ModuleOf(t.name()));
  // Excludes "fc", a layer of draft models for concatenated inputs.
  if (role == Role::kHead) return text ? leaf == "lm_head" : leaf != "fc";
  if (!checkpoint::MayBeLinear(role) ||
      (!t.name().ends_with(".weight") && !checkpoint::IsStacked(t))) {
    return true;
  }
  auto above = checkpoint::SplitModule(parent);
  while (!above.leaf.empty() && absl::ascii_isdigit(above.leaf.front())) {
    above = checkpoint::SplitModule(above.parent);
  }
  const std::string words = fmt::format("{}.{}", above.leaf, leaf);
  return Has(kTried, words);
}

// Whether the layers have the norms of the dense models that were tried: one
// before the attention and one after it, and no others.
bool HasNormsOfTried(const Model& model) {
  int64_t before = 0;
  int64_t after = 0;
  for (const ModelTensor& t : model.tensors()) {
    const auto [parent, leaf] =
        checkpoint::SplitModule(checkpoint::ModuleOf(t.name()));
    before += leaf == "input_layernorm";
    after += leaf == "post_attention_layernorm";
    if (leaf.ends_with("layernorm") && leaf != "input_layernorm" &&
        leaf != "post_attention_layernorm") {
      return false;
    }
  }
  return before == after;
}

bool Lists(std::string_view texts, std::string_view text) {
  return fmt::format(", {},", texts).find(fmt::format(", {},", text)) !=
         std::string::npos;
}

// Whether transformers has the class of an encoder, judged by its name.
bool IsOfTransformers(const std::string& name, std::string type) {
  std::erase_if(type, [](char c) { return c == '_' || c == '-'; });
  if (!absl::AsciiStrToLower(name).starts_with(type)) return false;
  return Lists(
      "Model, ForMaskedLM, ForSequenceClassification, "
      "ForTokenClassification, ForQuestionAnswering, "
      "ForMultipleChoice, ForNextSentencePrediction, ForPreTraining",
      name.substr(type.size()));
}

// Whether the plan copies codes, whose scales engines would not find.
bool CopiesCodes(const ConversionPlan& plan) {
  return std::ranges::any_of(plan.copies, [](const ModelTensor* t) {
    return t->stored.shape.size() > 1 && t->stored.dtype != "BOOL" &&
           safetensors::BitsOf(t->stored.dtype) < 16;
  });
}

}  // namespace

absl::Span<const EngineRun> EngineRuns() { return kRuns; }

std::string ClassOf(const Model& model) {
  const Json* names = checkpoint::Member(&model.config(), "architectures");
  if (names == nullptr || !names->is_array() || names->empty()) return "";
  const std::string name = checkpoint::TextOf(&names->front()).value_or("");
  const bool plain = std::ranges::all_of(
      name, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  return plain ? name : "";
}

bool IsText(const std::string& name) {
  return name.ends_with("ForCausalLM") ||
         name.ends_with("ForConditionalGeneration");
}

std::string_view KindOf(const Model& model) {
  const std::string name = ClassOf(model);
  const auto architecture = checkpoint::Architecture::Of(model, {});
  if (name.empty() || !architecture.ok() || !architecture->known()) {
    return "other";
  }
  for (const ModelTensor& t : model.tensors()) {
    const Role role = architecture->RoleOf(checkpoint::ModuleOf(t.name()));
    if (!IsLikeTried(t, role, IsText(name))) return "other";
    // Only DeepSeek-V3's MTP heads are like those of the models tried.
    if (role == Role::kMultiToken && name != "DeepseekV3ForCausalLM") {
      return "other";
    }
    // Each class implements latent attention in its own way.
    if (name != "DeepseekV3ForCausalLM" &&
        t.name().find(".kv_b_proj.") != std::string::npos) {
      return "other";
    }
  }
  const bool experts = std::ranges::any_of(model.tensors(), [](const auto& t) {
    return checkpoint::IsExperts(t.name()) || checkpoint::IsStacked(t);
  });
  const bool images =
      std::ranges::any_of(model.tensors(), [&](const ModelTensor& t) {
        return architecture->RoleOf(t.name()) == Role::kVision;
      });
  if (model.config().contains("vision_config")) {
    return experts || !IsText(name) ? "other" : "images";
  }
  if (images) return "other";
  if (experts) return IsText(name) ? "experts" : "other";
  if (name.ends_with("ForCausalLM") && !HasNormsOfTried(model)) return "other";
  if (name.ends_with("ForCausalLM")) return "dense";
  return IsOfTransformers(name, model.model_type()) ? "encoder" : "other";
}

const EngineRun* FindEngineRun(std::string_view engine, const Model& model,
                               const ConversionPlan& plan) {
  std::set<std::string_view> formats;
  bool measured = false;
  for (const auto& [kind, names] : checkpoint::ModulesOf(plan)) {
    // Models that use a format both with and without input scales were not
    // tried.
    if (!formats.insert(Name(kind.format)).second) return nullptr;
    measured |= kind.measured;
  }
  if (formats.empty() || plan.torn || CopiesCodes(plan)) return nullptr;
  const std::string format = fmt::format("{}", fmt::join(formats, " and "));
  const std::string_view kind = KindOf(model);
  const std::string name = ClassOf(model);
  // With input scales, fp8 is another scheme, for which engines have a kernel
  // for experts.
  const std::string way = measured && kind == "experts" && format == "fp8"
                              ? "fp8 with --input-amax"
                              : format;
  for (const EngineRun& run : kRuns) {
    if (run.tried_with.engine == engine && run.dialect == Name(plan.dialect) &&
        run.kind == kind && (run.only.empty() || Lists(run.only, name)) &&
        Lists(run.formats, way)) {
      return &run;
    }
  }
  return nullptr;
}

bool IsGood(const EngineRun* run) {
  return run != nullptr && (run->outcome == "ran" || run->outcome == "loaded");
}

}  // namespace quantd::quantctl
