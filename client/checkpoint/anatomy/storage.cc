#include "client/checkpoint/anatomy/storage.h"

#include <algorithm>
#include <utility>

#include "client/checkpoint/names.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

// Endings of names after a dot. In names of stacks "_" replaces the dot:
// "experts.down_proj_weight_scale".
constexpr Words kCodeNames = R"(
    weight_packed qweight q_weight weight_qdata trellis Qidxs W_q bitmask
    dense_weights col_vals compressed)";
constexpr Words kCompanions = R"(
    weight_scale weight_scale_inv weight_scale_2 weight_global_scale
    weight_scales weight_zero_point weight_zero_points weight_zp weight_offset
    weight_shape weight_g_idx scale_inv input_scale activation_scale
    input_scale_ub input_global_scale input_zero_point pre_quant_scale qzeros
    scales g_idx SCB weight_format wscales wtscale wcscales smooth_factor
    smooth_factor_orig scale_weight scale_input codebooks q_scale_max q_groups
    q_invperm absmax quant_map row_offsets qscale_weight qscale_act
    comfy_quant)";
// Members of kCompanions that a plain model may also have, for its own
// purposes.
constexpr std::string_view kCommon[] = {"scales", "absmax", "codebooks"};
constexpr std::string_view kSpare[] = {
    "input_scale",  "input_scale_ub", "input_global_scale", "input_zero_point",
    "weight_shape", "output_scale",   "activation_scale",   "comfy_quant"};
// Last names of tensors of a quantized weight that engines know.
constexpr Words kKnownParts = R"(
    weight weight_packed weight_shape input_scale input_global_scale
    output_scale bias comfy_quant k_scale v_scale q_scale kv_scale
    e_score_correction_bias)";
// Tensors from which torch computes a weight (weight norm, spectral norm,
// pruning), and the Python call that folds them into one tensor.
struct FactorName {
  std::string_view end;
  std::string_view fold;
};
constexpr FactorName kFactors[] = {
    {"weight_g", "torch.nn.utils.remove_weight_norm(module)"},
    {"weight_u", "torch.nn.utils.remove_spectral_norm(module)"},
    {"weight_mask", "torch.nn.utils.prune.remove(module, \"weight\")"},
    {"bias_mask", "torch.nn.utils.prune.remove(module, \"bias\")"},
    {"weight_v", "torch.nn.utils.remove_weight_norm(module)"},
    {"weight_orig", "torch.nn.utils.prune.remove(module, \"weight\")"},
    {"bias_orig", "torch.nn.utils.prune.remove(module, \"bias\")"}};
constexpr std::string_view kParametrizations = ".parametrizations.";
// Modules that ModelOpt adds inside quantized modules and removes on export.
constexpr Words kQuantizers =
    ".weight_quantizer .input_quantizer .output_quantizer _bmm_quantizer";

constexpr Words kCacheScales = R"(
    .k_scale .v_scale .kv_scale .k_proj.output_scale .v_proj.output_scale)";
// Formats that a part of a weight reveals. The first row that fits applies.
constexpr std::pair<std::string_view, std::string_view> kFormatsByPart[] = {
    {"quant_map", "bitsandbytes 4-bit"},
    {"absmax", "bitsandbytes 4-bit"},
    {"SCB", "bitsandbytes, LLM.int8()"},
    {"wscales", "Nunchaku, SVDQuant"},
    {"wtscale", "Nunchaku, SVDQuant"},
    {"qweight", "AWQ or GPTQ"},
    {"q_weight", "EXL2"},
    {"trellis", "EXL3"},
    {"Qidxs", "QuIP#"},
    {"codebooks", "AQLM"},
    {"W_q", "HQQ"},
    {"dense_weights", "SpQR"},
    {"compressed", "compressed-tensors 2:4 sparse"},
    {"_quantizer", "ModelOpt before its export"},
    {"qdata", "torchao"},
    {"qscale_weight", "Mistral FP8"},
    {"scale_weight", "ComfyUI, scaled FP8"},
};

// Words in the names of integers, masks and tables that are not weights.
constexpr Words kBuffers = R"(
    position _ids index indices mask tid2eid coords num_batches freqs bucket
    lookup rotary inv_freq rope d2t t2d)";

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Length of the longest of `words` with which the name ends, or 0. A dot must
// precede the word, or a "_" if the word is unambiguous.
template <typename List>
size_t LengthOfEnd(std::string_view name, const List& words, bool plain) {
  size_t longest = 0;
  for (const std::string_view word : words) {
    if (word.size() >= name.size() || !name.ends_with(word)) continue;
    const char before = name[name.size() - word.size() - 1];
    const bool stack =
        before == '_' && (!plain || word == "scale_inv" ||
                          StartsWithOneOf(word, Words("weight_ input_")));
    if (before == '.' || stack) longest = std::max(longest, word.size());
  }
  return longest;
}

bool IsBuffer(const std::string& name, size_t rank) {
  const std::string_view leaf = SplitModule(name).leaf;
  return (leaf == "bias" && rank >= 3) ||  // GPT-2's attention mask
         HoldsOneOf(leaf, kBuffers);
}

// The name without its last `end` characters and the "." or "_" before them,
// which is "._" in files of torchao.
std::string BeforeEnd(const std::string& name, size_t end) {
  std::string before = name.substr(0, name.size() - end - 1);
  if (before.ends_with('.')) before.pop_back();
  return before;
}

}  // namespace

TensorStorage StorageOf(const safetensors::Tensor& t) {
  const std::string& name = t.name;
  const std::string& type = t.dtype;
  const bool plain = IsPlainType(type);
  const bool narrow =
      type.starts_with("F8_") || type.starts_with("F6_") || type == "F4";
  const bool blocks = name.ends_with("_blocks") && t.shape.size() == 4;
  const std::string_view leaf = SplitModule(name).leaf;
  if (const size_t at = name.find(kParametrizations);
      at != std::string::npos && (plain || type == "BOOL")) {
    return {Storage::kFactor, name.substr(0, at)};
  }
  for (const FactorName& factor : kFactors) {
    if (leaf == factor.end && leaf.size() < name.size() &&
        (plain || type == "BOOL")) {
      return {Storage::kFactor, BeforeEnd(name, leaf.size())};
    }
  }
  if (type == "BOOL") return {Storage::kBuffer, ""};
  // Parts of a tensor subclass of a library, such as ".weight.absmax".
  const size_t inner = name.find(".weight.");
  if (inner != std::string::npos && !Holds(name, kParametrizations)) {
    const bool codes = Has(Words("rowwise_data qdata _data _packed"), leaf);
    return {codes ? Storage::kCodes : Storage::kCompanion,
            name.substr(0, inner)};
  }
  for (const std::string_view quantizer : kQuantizers) {
    const size_t at = name.find(quantizer);
    if (at != std::string::npos) {
      return {Storage::kCompanion, name.substr(0, at)};
    }
  }
  if (const size_t end = LengthOfEnd(name, kCodeNames, plain); end > 0) {
    return {Storage::kCodes, BeforeEnd(name, end)};
  }
  // Norms also have a tensor ".scale", but not in an 8-bit type.
  if (narrow && leaf == "scale") {
    return {Storage::kCompanion, BeforeEnd(name, leaf.size())};
  }
  if (const size_t end = LengthOfEnd(name, kCompanions, plain); end > 0) {
    return {Storage::kCompanion, BeforeEnd(name, end)};
  }
  if (plain) return {Storage::kPlain, ""};
  const bool weight = leaf == "weight";
  const bool number = t.shape.empty();
  const bool list = t.shape.size() < 2;
  if (!narrow && (list ? !weight || number || type == "F64"
                       : IsBuffer(name, t.shape.size()))) {
    return {Storage::kBuffer, ""};
  }
  if (weight || blocks) {
    return {Storage::kCodes, BeforeEnd(name, weight ? leaf.size() : 6)};
  }
  return {Storage::kCodes, name};
}

bool IsPlainType(std::string_view dtype) {
  return Has(Words("F32 F16 BF16"), dtype);
}

bool IsCommon(const safetensors::Tensor& t) {
  return IsPlainType(t.dtype) && Has(kCommon, SplitModule(t.name).leaf);
}

bool IsSpareBeside(std::string_view part) { return Has(kSpare, part); }

bool IsKnownPart(std::string_view part) { return Has(kKnownParts, part); }

bool IsCacheScale(std::string_view name) {
  return EndsWithOneOf(name, kCacheScales);
}

std::string FoldingOf(const std::vector<const safetensors::Tensor*>& factors) {
  for (const FactorName& factor : kFactors) {
    for (const safetensors::Tensor* t : factors) {
      if (SplitModule(t->name).leaf == factor.end)
        return std::string(factor.fold);
    }
  }
  return "torch.nn.utils.parametrize.remove_parametrizations(module, "
         "\"weight\")";
}

std::string DescribeParts(const std::string& module,
                          std::vector<const safetensors::Tensor*> parts) {
  std::ranges::sort(parts, [](auto* a, auto* b) { return a->name < b->name; });
  std::string text;
  for (const safetensors::Tensor* t : parts) {
    std::string_view name = t->name;
    if (name.size() > module.size() + 1) name.remove_prefix(module.size() + 1);
    text += fmt::format("{}{} {} [{}]", text.empty() ? "" : ", ", name,
                        t->dtype, fmt::join(t->shape, ", "));
  }
  return text;
}

std::string MayBe(const std::string& module,
                  const std::vector<const safetensors::Tensor*>& parts) {
  const auto has = [&](std::string_view end) {
    return std::ranges::any_of(parts, [&](auto* t) {
      return t->name.size() >= module.size() &&
             Holds(std::string_view(t->name).substr(module.size()), end);
    });
  };
  const auto type = [&](std::string_view dtype) {
    return std::ranges::any_of(parts, [&](auto* t) {
      return t->dtype.starts_with(dtype) && t->shape.size() > 1;
    });
  };
  for (const auto& [word, format] : kFormatsByPart) {
    if (!has(word)) continue;
    return std::string(word == "qweight" && has("g_idx") ? "GPTQ" : format);
  }
  if (has("weight_packed") && type("I32")) {
    return "compressed-tensors integers";
  }
  if (has("_weight_scale")) return "ModelOpt fused experts";
  if (type("U32")) return "MLX";
  if (std::ranges::any_of(parts, [](auto* t) {
        return t->dtype == "U8" && t->name.ends_with(".weight_scale");
      })) {
    return type("F8") ? "MXFP8" : "Quark MXFP4";
  }
  if (type("I8")) return "INT8 by Quark or compressed-tensors";
  if (type("F8_") || type("F8")) {
    return has("scale") ? "FP8" : "FP8 without its scales";
  }
  if (type("F64")) return "not quantized, in a 64-bit type";
  if (type("C")) return "not quantized, complex numbers";
  return "";
}

}  // namespace quantd::checkpoint
