#include "client/checkpoint/weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "client/checkpoint/stacked.h"
#include "client/files/quantized_file.h"
#include "kernels/plan/profile/profile.h"

namespace quantd::checkpoint {
namespace {

// The largest E4M3 number, to which the largest key or value is scaled.
constexpr float kLargestCode = 448;

// The type of the part. Some profiles store scales in the type of the weight,
// where others store fp32.
std::string TypeOf(const Weight& w, const StoredPart& part) {
  if (part.source != PartSource::kScales || part.dtype != "F32") {
    return std::string(part.dtype);
  }
  const DType type = FromSafetensorsName(w.dtype());
  return std::string(
      SafetensorsName(FormatUnder(w.profile, w.layout->codes, type).scale));
}

bool MayHaveInputScale(const WeightLayout& layout) {
  return std::ranges::any_of(layout.parts, [](const StoredPart& part) {
    return part.source == PartSource::kInputScale;
  });
}

// INVALID_ARGUMENT if the weight's format needs an input scale and it has none.
absl::Status CheckInput(const Weight& w) {
  if (w.input_amax) return absl::OkStatus();
  if (w.layout->dialect == Dialect::kCompressedTensors &&
      w.layout->format == WeightFormat::kFp8 &&
      !ExpertsAbove(w.module).empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: engines refuse fp8 experts without scales of the activations; "
        "give --input-amax, or use --format fp8_dynamic, or --rule "
        "\"re:.*experts.*=fp8_dynamic\" before other rules",
        w.module));
  }
  if (!w.layout->needs_input_scale) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: with --dialect {} --format {} engines need a scale of the "
      "activations and give wrong results without it; give --input-amax with "
      "this module, or use --dialect compressed-tensors, whose fp8 computes "
      "the scales at run time",
      w.module, Name(w.layout->dialect), Name(w.layout->format)));
}

}  // namespace

Weight WeightOf(const StoredWeight& stored) {
  Weight w;
  w.module = stored.module;
  w.source = stored.part(PartSource::kCodes);
  w.rows = stored.rows;
  w.cols = stored.cols;
  w.stored = stored;
  return w;
}

absl::StatusOr<std::vector<Weight>> WeightsOf(const Model& model,
                                              const ModelTensor& tensor,
                                              bool whole) {
  std::vector<Weight> weights;
  const std::vector<int64_t>& shape = tensor.stored.shape;
  if (!IsFloat(FromSafetensorsName(tensor.stored.dtype))) return weights;
  if (IsStacked(tensor)) return Unstack(model, tensor, whole);
  if (shape.size() != 2 || !tensor.name().ends_with(".weight")) return weights;
  Weight w;
  w.module = std::string(ModuleOf(tensor.name()));
  // Skips the out_proj of torch.nn.MultiheadAttention, which reads this weight
  // directly instead of calling the module.
  const ModuleName name = SplitModule(w.module);
  if (name.leaf == "out_proj" &&
      model.Find(std::string(name.parent) + ".in_proj_weight") != nullptr) {
    return weights;
  }
  w.source = &tensor;
  w.rows = shape[0];
  w.cols = shape[1];
  w.pitch = SizeOfShape(tensor.stored.dtype, {w.cols});
  weights.push_back(std::move(w));
  return weights;
}

std::vector<FusedWeights> FuseWeights(std::vector<Weight> weights,
                                      const Architecture& architecture) {
  std::vector<FusedWeights> groups;
  std::map<std::string, size_t> places;
  for (Weight& w : weights) {
    std::string key;
    if (NeedsAmax(*w.layout)) {
      key = architecture.FusionKey(w.module, w.cols);
      // Weights of different formats cannot share a scale.
      if (!key.empty()) key += Name(w.layout->format);
    }
    const auto [place, fresh] = key.empty()
                                    ? std::pair(places.end(), true)
                                    : places.emplace(key, groups.size());
    if (fresh) groups.emplace_back();
    FusedWeights& group = fresh ? groups.back() : groups[place->second];
    group.weights.push_back(std::move(w));
  }
  for (FusedWeights& group : groups) {
    const std::string first(group.weights.front().dtype());
    const bool mixed = std::ranges::any_of(
        group.weights, [&](const Weight& w) { return w.dtype() != first; });
    for (Weight& w : group.weights) w.widened = mixed;
  }
  return groups;
}

absl::Status TakeInputs(const Selection& selection, ConversionPlan* plan) {
  std::vector<std::string> missing;
  bool any = false;
  // For each stack of experts, one expert with a scale and one without.
  std::map<std::string_view, std::array<const Weight*, 2>> stacks;
  for (FusedWeights& group : plan->groups) {
    // Fused weights have the same input, so they share the largest amax.
    std::optional<float> most;
    for (const Weight& w : group.weights) {
      const auto found = selection.input_amax.find(w.module);
      if (found == selection.input_amax.end()) continue;
      most = std::max(most.value_or(0), found->second);
    }
    for (Weight& w : group.weights) {
      if (!MayHaveInputScale(*w.layout)) continue;
      w.input_amax = most;
      any |= most.has_value();
      if (!most) missing.push_back(w.module);
      if (const auto stack = ExpertsAbove(w.module); !stack.empty()) {
        stacks[stack][most ? 0 : 1] = &w;
      }
    }
  }
  if (!selection.input_amax.empty() && !missing.empty()) {
    if (!any) {
      return absl::InvalidArgumentError(
          fmt::format("--input-amax: the file has none of the {} weights, for "
                      "example not {}",
                      missing.size(), missing.front()));
    }
    constexpr size_t kNamed = 8;
    const size_t more = missing.size() - std::min(kNamed, missing.size());
    missing.resize(missing.size() - more);
    plan->notes.push_back(
        fmt::format("no scale of the activations, because --input-amax does "
                    "not have the module: {}{}",
                    fmt::join(missing, ", "),
                    more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  for (const auto& [stack, pair] : stacks) {
    const auto [with, without] = pair;
    if (with == nullptr || without == nullptr) continue;
    return absl::InvalidArgumentError(
        fmt::format("--input-amax: the file has {} but not {}, and engines "
                    "quantize the inputs of all experts of a layer or of none",
                    with->module, without->module));
  }
  for (const FusedWeights& group : plan->groups) {
    for (const Weight& w : group.weights) {
      if (auto s = CheckInput(w); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

std::map<std::string, size_t> AttentionsOf(const Model& model,
                                           const Architecture& architecture) {
  std::map<std::string, size_t> attentions;
  for (const ModelTensor& t : model.tensors()) {
    for (const char* leaf :
         {".k_proj.", ".qkv_proj.", ".query_key_value.", ".kv_b_proj."}) {
      const size_t end = t.name().find(leaf);
      if (end != std::string::npos &&
          architecture.RoleOf(t.name()) != Role::kVision) {
        attentions.emplace(t.name().substr(0, end), t.shard);
      }
    }
  }
  return attentions;
}

absl::Status TakeCaches(const Model& model, const Architecture& architecture,
                        const Selection& selection, ConversionPlan* plan) {
  if (selection.cache_amax.empty()) return absl::OkStatus();
  const bool own = plan->dialect == Dialect::kModelOpt;
  if (!own && plan->dialect != Dialect::kCompressedTensors) {
    return absl::InvalidArgumentError(fmt::format(
        "--kv-cache fp8: --dialect {} has no scales of caches; take "
        "compressed-tensors or modelopt",
        Name(plan->dialect)));
  }
  std::vector<std::string> missing;
  for (const auto& [attention, shard] : AttentionsOf(model, architecture)) {
    const auto found = selection.cache_amax.find(attention);
    if (found == selection.cache_amax.end()) {
      missing.push_back(attention);
      continue;
    }
    const auto& [keys, values] = found->second;
    for (const auto& [letter, amax] :
         {std::pair{'k', keys}, std::pair{'v', values}}) {
      std::string name =
          own ? fmt::format("{}.{}_proj.", attention, letter) : attention + ".";
      name += fmt::format("{}_scale", letter);
      // Each library has its own shape of one number.
      std::vector<int64_t> shape(own ? 0 : 1, 1);
      plan->shards[shard].tensors.push_back(
          {name, "F32", std::move(shape), 0, sizeof(float)});
      plan->cache_scales.push_back({std::move(name), amax / kLargestCode});
    }
  }
  plan->scales_caches = true;
  // The attentions may be in shards that another conversion takes.
  const bool elsewhere = missing.empty() && model.left() > 0;
  if (plan->cache_scales.empty() && !elsewhere) {
    return absl::InvalidArgumentError(
        missing.empty()
            ? "--kv-cache fp8: no attention that caches keys and values is "
              "known in this model"
            : fmt::format("--kv-cache fp8: --input-amax has no largest keys "
                          "and values of {}",
                          missing.front()));
  }
  if (!missing.empty()) {
    plan->notes.push_back(
        fmt::format("no scales of caches, because --input-amax has no largest "
                    "keys and values, so engines use 1: {}",
                    fmt::join(missing, ", ")));
  }
  return absl::OkStatus();
}

std::vector<safetensors::Tensor> PartsOf(Weight* w) {
  std::vector<safetensors::Tensor> tensors;
  for (const StoredPart& part : w->layout->parts) {
    if (part.source == PartSource::kNothing ||
        (part.source == PartSource::kInputScale && !w->input_amax)) {
      continue;
    }
    const auto shape = ShapeOf(*w->layout, part.source, w->rows, w->cols);
    const std::string dtype = TypeOf(*w, part);
    const size_t size = SizeOfShape(dtype, shape);
    const std::string name = w->module + std::string(part.suffix);
    w->outputs.push_back({part.source, name, 0, size});
    tensors.push_back({name, dtype, shape, 0, size});
  }
  return tensors;
}

// The codes of a stack have the shape [E, N, K / 32, 16], its scales [E, N, K /
// 32].
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts) {
  std::vector<safetensors::Tensor> tensors;
  const Weight& first = *experts.front();
  for (const StoredPart& part : first.layout->parts) {
    if (part.source == PartSource::kNothing) continue;
    const int64_t block = BlockOf(*first.layout).cols;
    std::vector<int64_t> shape = {static_cast<int64_t>(experts.size()),
                                  first.rows, first.cols / block};
    if (part.source == PartSource::kCodes) shape.push_back(block / 2);
    const std::string name = first.module + std::string(part.suffix);
    const size_t size = SizeOfShape(part.dtype, shape);
    const size_t each = size / experts.size();
    for (size_t e = 0; e < experts.size(); ++e) {
      experts[e]->outputs.push_back({part.source, name, e * each, each});
    }
    tensors.push_back({name, std::string(part.dtype), shape, 0, size});
  }
  return tensors;
}

}  // namespace quantd::checkpoint
