#include "client/checkpoint/stored.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::string Before(const std::string& name, std::string_view suffix) {
  return name.substr(0, name.size() - suffix.size());
}

// Whether a scale that `part` says to be fp32 may be stored so: libraries keep
// the type of the weight.
bool IsTypeOf(const StoredPart& part, const std::string& dtype) {
  if (part.dtype == dtype) return true;
  return part.source == PartSource::kScales && part.dtype == "F32" &&
         (dtype == "BF16" || dtype == "F16");
}

// The weight of a layout whose codes this tensor is; nullopt: it is not.
std::optional<StoredWeight> Match(const Model& model, const ModelTensor& codes,
                                  const WeightLayout& layout) {
  const StoredPart& first = layout.parts[0];
  const std::vector<int64_t>& shape = codes.stored.shape;
  if (!codes.name().ends_with(first.suffix) ||
      codes.stored.dtype != first.dtype ||
      shape.size() != (layout.stacked ? 4 : 2)) {
    return std::nullopt;
  }
  StoredWeight w;
  w.module = Before(codes.name(), first.suffix);
  w.layout = &layout;
  const bool half = FindFormat(layout.codes)->element == DType::kE2M1x2;
  w.rows = shape[layout.stacked ? 1 : 0];
  w.cols = (layout.stacked ? shape[2] * shape[3] : shape[1]) * (half ? 2 : 1);
  if (layout.stacked) w.experts = shape[0];
  for (size_t i = 0; i < layout.parts.size(); ++i) {
    const StoredPart& part = layout.parts[i];
    if (part.source == PartSource::kNothing) continue;
    const ModelTensor* found = model.Find(w.module + std::string(part.suffix));
    w.parts[i] = found;
    if (part.source == PartSource::kInputScale ||
        part.source == PartSource::kLabel) {
      continue;
    }
    if (found == nullptr || !IsTypeOf(part, found->stored.dtype)) {
      return std::nullopt;
    }
    if (part.source == PartSource::kCodes) continue;
    auto want = ShapeOf(layout, part.source, w.rows, w.cols);
    if (layout.stacked) want.insert(want.begin(), w.experts);
    // A number is a number in whatever shape.
    const bool number = part.source == PartSource::kGlobal &&
                        found->stored.size == sizeof(float);
    if (found->stored.shape != want && !number) return std::nullopt;
  }
  return w;
}

bool LooksQuantized(const Model& model, const ModelTensor& t,
                    std::string* module) {
  const std::string& dtype = t.stored.dtype;
  for (const std::string_view suffix :
       {".weight_packed", "_blocks", ".weight", ".weight.rowwise_data"}) {
    if (!t.name().ends_with(suffix)) continue;
    *module = Before(t.name(), suffix);
    if (suffix == ".weight.rowwise_data") return true;  // the service's own
    if (suffix == "_blocks") {
      return model.Find(*module + "_scales") != nullptr;
    }
    return dtype == "U8" || dtype == "I8" || dtype == "I32" ||
           dtype.starts_with("F8_") || dtype == "F4" ||
           model.Find(*module + ".weight_scale") != nullptr ||
           model.Find(*module + ".weight_scale_inv") != nullptr;
  }
  return false;
}

// What the sibling tensors of a weight are, for a person.
std::string Siblings(const Model& model, const std::string& module) {
  std::string text;
  for (const char* suffix :
       {".weight", ".weight_packed", ".weight_scale", ".weight_scale_inv",
        ".weight_scale_2", ".weight_global_scale", "_blocks", "_scales",
        ".weight.rowwise_data", ".weight.rowwise_scale"}) {
    const ModelTensor* t = model.Find(module + suffix);
    if (t == nullptr) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        std::string_view(suffix).substr(1), t->stored.dtype);
    std::string shape;
    for (const int64_t d : t->stored.shape) {
      shape += fmt::format("{}{}", shape.empty() ? "" : ", ", d);
    }
    text += fmt::format(" [{}]", shape);
  }
  return text;
}

}  // namespace

const ModelTensor* StoredWeight::part(PartSource source) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (layout->parts[i].source == source) return parts[i];
  }
  return nullptr;
}

std::string StoredWeight::name_of(int64_t expert) const {
  return layout->stacked ? fmt::format("{}.{}", module, expert) : module;
}

Dialect ConfiguredDialect(const Json& config) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) {
    return Dialect::kNone;
  }
  const auto method = quantization->find("quant_method");
  if (method == quantization->end() || !method->is_string()) {
    return Dialect::kNone;
  }
  const auto& name = method->get_ref<const std::string&>();
  if (name == "compressed-tensors") return Dialect::kCompressedTensors;
  if (name.starts_with("modelopt")) return Dialect::kModelOpt;
  if (name == "fp8") return Dialect::kDeepSeek;
  if (name == "mxfp4") return Dialect::kGptOss;
  return Dialect::kNone;
}

absl::StatusOr<StoredModel> FindStored(const Model& model) {
  StoredModel out;
  const Dialect configured = ConfiguredDialect(model.config());
  std::map<std::string, const ModelTensor*> seen;  // modules, by their codes
  // One label for each weight, or one text for all.
  const bool labelled =
      std::any_of(
          model.tensors().begin(), model.tensors().end(),
          [](const auto& t) { return t.name().ends_with(".comfy_quant"); }) ||
      std::any_of(
          model.shards().begin(), model.shards().end(),
          [](const ModelShard& shard) {
            return shard.file.metadata().count("_quantization_metadata") > 0;
          });
  for (const ModelTensor& tensor : model.tensors()) {
    std::optional<StoredWeight> best;
    for (const WeightLayout& layout : AllLayouts()) {
      if (StoredAs(layout.format) != layout.format) continue;
      auto match = Match(model, tensor, layout);
      if (!match) continue;
      // The same tensors may be of two dialects: ComfyUI's differ in the order
      // of bytes only, and it takes what has no label for plain numbers.
      const bool comfy = layout.dialect == Dialect::kComfy;
      if (comfy && !labelled) continue;
      if (!best || comfy || layout.dialect == configured) best = match;
    }
    // What ComfyUI knows by its label is of ComfyUI or of nobody.
    if (best && best->layout->dialect != Dialect::kComfy &&
        configured == Dialect::kNone &&
        FindLayout(Dialect::kComfy, best->layout->format) != nullptr &&
        model.Find(best->module + ".comfy_quant") != nullptr) {
      best.reset();
    }
    std::string module = best ? best->module : "";
    if (!best && LooksQuantized(model, tensor, &module)) {
      out.unclear.push_back(
          {module, "its parts fit no dialect: " + Siblings(model, module)});
    }
    if (best) out.weights.push_back(*best);
    if (module.empty()) continue;
    const auto [place, fresh] = seen.emplace(module, &tensor);
    const ModelTensor* plain = model.Find(module + ".weight");
    if (fresh && (plain == nullptr || plain == &tensor)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} is there twice, in two dialects at once: {}", model.path(),
        module.substr(0, 200), Siblings(model, module)));
  }
  return out;
}

}  // namespace quantd::checkpoint
