#include "client/checkpoint/stored.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/anatomy/storage.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::string Before(const std::string& name, std::string_view suffix) {
  return name.substr(0, name.size() - suffix.size());
}

// Whether a part may have type `dtype`. fp32 scales may also have the weight's
// type, and block scales may be powers of two.
bool IsTypeOf(const WeightLayout& layout, const StoredPart& part,
              const std::string& dtype) {
  if (part.dtype == dtype) return true;
  if (part.source != PartSource::kScales || part.dtype != "F32") return false;
  const bool power = dtype == "F8_E8M0" || dtype == "U8";
  return dtype == "BF16" || dtype == "F16" ||
         (power && layout.scale_shape == ScaleShape::kBlocks);
}

// Returns the weight of that layout whose codes are this tensor; nullopt if the
// tensor and its siblings do not fit the layout.
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
  const bool half = IsFourBits(layout);
  w.rows = shape[layout.stacked ? 1 : 0];
  w.cols = (layout.stacked ? shape[2] * shape[3] : shape[1]) * (half ? 2 : 1);
  if (layout.stacked) w.experts = shape[0];
  for (size_t i = 0; i < layout.parts.size(); ++i) {
    const StoredPart& part = layout.parts[i];
    if (part.source == PartSource::kNothing) continue;
    const ModelTensor* found = model.Find(w.module + std::string(part.suffix));
    if (found == nullptr && !part.also.empty()) {
      found = model.Find(w.module + std::string(part.also));
    }
    w.parts[i] = found;
    if (part.source == PartSource::kInputScale ||
        part.source == PartSource::kLabel) {
      continue;
    }
    if (found == nullptr || !IsTypeOf(layout, part, found->stored.dtype)) {
      return std::nullopt;
    }
    if (part.source == PartSource::kCodes) continue;
    auto want = ShapeOf(layout, part.source, w.rows, w.cols);
    if (layout.stacked) want.insert(want.begin(), w.experts);
    // The global scale may have any shape, since it is one number.
    const bool number = part.source == PartSource::kGlobal &&
                        found->stored.size == sizeof(float);
    if (found->stored.shape != want && !number) return std::nullopt;
  }
  return w;
}

// Tensors that are parts of quantized weights, by module.
using PartGroups = std::map<std::string, std::vector<const ModelTensor*>>;

PartGroups GroupsOf(const Model& model) {
  PartGroups groups;
  for (const ModelTensor& t : model.tensors()) {
    const auto [storage, module] = StorageOf(t.stored);
    if (!module.empty()) groups[module].push_back(&t);
  }
  return groups;
}

// Adds tensors of quantized modules that engines are not known to have.
void AddUnknownParts(const Model& model, const StoredModel& stored,
                     PartGroups* groups) {
  const std::set<std::string> modules = stored.modules();
  for (const ModelTensor& t : model.tensors()) {
    const auto [module, part] = SplitModule(t.name());
    if (!IsKnownPart(part) && StorageOf(t.stored).module.empty() &&
        modules.count(std::string(module)) > 0) {
      (*groups)[std::string(module)].push_back(&t);
    }
  }
}

// Describes the tensors of a module and its possible format, for a message.
std::string Siblings(const Model& model, const std::string& module,
                     const PartGroups& groups) {
  std::vector<const safetensors::Tensor*> parts;
  if (const auto found = groups.find(module); found != groups.end()) {
    for (const ModelTensor* t : found->second) parts.push_back(&t->stored);
  }
  for (const char* end :
       {"", ".weight", ".scale", "_scale", ".zero", ".biases"}) {
    const ModelTensor* t = model.Find(module + end);
    if (t == nullptr) continue;
    if (std::ranges::find(parts, &t->stored) != parts.end()) {
      continue;
    }
    parts.push_back(&t->stored);
  }
  const std::string may = MayBe(module, parts);
  return DescribeParts(module, parts) +
         (may.empty() ? "" : fmt::format(" ({})", may));
}

std::string MethodOf(const Json& config) {
  const auto said = QuantizationsIn(config);
  const Json* first = said.empty() ? nullptr : said.front().json;
  return TextOf(Member(first, "quant_method")).value_or("");
}

// Classifies tensors that are not part of `out->weights`.
void SortUnclear(const Model& model, const PartGroups& groups,
                 const std::map<std::string, const ModelTensor*>& codes,
                 StoredModel* out) {
  const std::set<const ModelTensor*> parts = out->tensors();
  std::set<std::string_view> clear;
  for (const StoredWeight& w : out->weights) clear.insert(w.module);
  for (const auto& [module, tensors] : groups) {
    UnclearWeight u = {module, "", {}};
    for (const ModelTensor* t : tensors) {
      if (parts.count(t) == 0) u.tensors.push_back(t);
    }
    const bool known = clear.count(module) > 0;
    if (known) {
      std::erase_if(u.tensors, [](const ModelTensor* t) {
        return IsSpareBeside(SplitModule(t->name()).leaf);
      });
    }
    if (u.tensors.empty()) continue;
    const bool plain = model.Find(module + ".weight") != nullptr ||
                       model.Find(module) != nullptr;
    const std::string text = Siblings(model, module, groups);
    if (std::ranges::all_of(u.tensors, [](const auto* t) {
          return StorageOf(t->stored).storage == Storage::kFactor;
        })) {
      std::vector<const safetensors::Tensor*> factors;
      for (const ModelTensor* t : u.tensors) factors.push_back(&t->stored);
      u.why = fmt::format("{}; fold them with {}", text, FoldingOf(factors));
      out->factored.push_back(std::move(u));
    } else if (known) {
      u.why =
          "it has tensors that may change its values and that quantd does not "
          "apply: " +
          text;
      out->altered.push_back(std::move(u));
    } else if (plain || codes.count(module) > 0) {
      u.why = "its tensors fit no known dialect: " + text;
      const ModelTensor* weight = model.Find(module + ".weight");
      if (weight != nullptr &&
          std::ranges::find(tensors, weight) == tensors.end()) {
        u.tensors.push_back(weight);
      }
      out->unclear.push_back(std::move(u));
    } else if (!std::ranges::all_of(tensors, [](const auto* t) {
                 return IsCommon(t->stored);
               })) {
      u.why = "the scales exist, but their weight does not: " + text;
      out->orphans.push_back(std::move(u));
    }
  }
}

}  // namespace

const ModelTensor* StoredWeight::part(PartSource source) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (layout->parts[i].source == source) return parts[i];
  }
  return nullptr;
}

bool StoredWeight::has_four_bits() const { return IsFourBits(*layout); }

std::string StoredWeight::kind() const {
  return fmt::format("{} by {}", Name(layout->format), Name(layout->dialect));
}

std::set<const ModelTensor*> StoredModel::tensors() const {
  std::set<const ModelTensor*> all;
  for (const StoredWeight& w : weights) {
    all.insert(w.parts.begin(), w.parts.end());
  }
  all.erase(nullptr);
  return all;
}

std::set<std::string> StoredModel::modules() const {
  std::set<std::string> all;
  for (const StoredWeight& w : weights) all.insert(w.module);
  for (const UnclearWeight& u : unclear) all.insert(u.module);
  return all;
}

size_t StoredWeight::size_bytes() const {
  size_t bytes = 0;
  for (const ModelTensor* part : parts) {
    if (part != nullptr) bytes += part->stored.size;
  }
  return bytes;
}

std::string StoredWeight::name_of(int64_t expert) const {
  return layout->stacked ? fmt::format("{}.{}", module, expert) : module;
}

Dialect ConfiguredDialect(const Json& config) {
  const std::string name = MethodOf(config);
  if (name == "compressed-tensors") return Dialect::kCompressedTensors;
  if (name.starts_with("modelopt")) return Dialect::kModelOpt;
  if (name == "fp8") return Dialect::kDeepSeek;
  if (name == "mxfp4") return Dialect::kGptOss;
  return Dialect::kNone;
}

bool IsOfQuark(const Json& config) { return MethodOf(config) == "quark"; }

bool HasComfyLabels(const Model& model) {
  return std::ranges::any_of(model.tensors(),
                             [](const ModelTensor& t) {
                               return t.name().ends_with(".comfy_quant");
                             }) ||
         std::ranges::any_of(model.shards(), [](const ModelShard& shard) {
           return shard.file.metadata().count(kComfyMetadata) > 0;
         });
}

absl::StatusOr<StoredModel> FindStored(const Model& model) {
  StoredModel out;
  const Dialect configured = ConfiguredDialect(model.config());
  PartGroups groups = GroupsOf(model);
  std::map<std::string, const ModelTensor*> seen;  // codes of each module
  std::set<std::string> known;                     // modules with a layout
  const bool labelled = HasComfyLabels(model);
  for (const ModelTensor& tensor : model.tensors()) {
    std::optional<StoredWeight> best;
    for (const WeightLayout& layout : AllLayouts()) {
      if (StoredAs(layout.format) != layout.format) continue;
      auto match = Match(model, tensor, layout);
      if (!match) continue;
      // Some layouts of different dialects have the same tensors. ComfyUI's
      // differ only in the order of bytes, and are used only if the model has
      // labels.
      const bool comfy = layout.dialect == Dialect::kComfy;
      if (comfy && !labelled) continue;
      if (!best || comfy || layout.dialect == configured) best = match;
    }
    // A weight with ComfyUI's label must have ComfyUI's layout.
    if (best && best->layout->dialect != Dialect::kComfy &&
        configured == Dialect::kNone &&
        FindLayout(Dialect::kComfy, best->layout->format) != nullptr &&
        model.Find(best->module + ".comfy_quant") != nullptr) {
      best.reset();
    }
    std::string module = best ? best->module : "";
    if (!best) {
      auto [storage, name] = StorageOf(tensor.stored);
      if (storage == Storage::kCodes) module = std::move(name);
    } else {
      known.insert(module);
      out.weights.push_back(*best);
    }
    if (module.empty()) continue;
    const auto [place, fresh] = seen.emplace(module, &tensor);
    const ModelTensor* plain = model.Find(module + ".weight");
    // A module of an unknown layout may have several tensors of codes.
    const bool alone = fresh || known.count(module) == 0;
    if (alone && (plain == nullptr || plain == &tensor || !fresh)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is stored twice, in two dialects: {}", model.path(),
                    module.substr(0, 200), Siblings(model, module, groups)));
  }
  AddUnknownParts(model, out, &groups);
  SortUnclear(model, groups, seen, &out);
  return out;
}

namespace {

// The names of the rotations that engines apply to activations, with commas
// between them; "": none.
std::string TransformsOf(const Json& quantization) {
  const Json* said = Member(&quantization, "transform_config");
  if (said == nullptr || said->is_null() || said->empty()) return "";
  const Json* groups = Member(said, "config_groups");
  if (groups == nullptr || !groups->is_object()) return "unknown ones";
  std::string names;
  for (const auto& [name, group] : groups->items()) {
    names += (names.empty() ? "" : ", ") + name.substr(0, 40);
  }
  return names;
}

// The FP8 block size in a description if it is not 128 x 128, else "". The
// shapes of scales do not always reveal it.
std::string OtherBlocks(const Json& quantization) {
  std::vector<const Json*> said = {&quantization};
  const Json* groups = Member(&quantization, "config_groups");
  if (groups != nullptr && groups->is_object()) {
    for (const auto& group : *groups) said.push_back(Member(&group, "weights"));
  }
  for (const Json* json : said) {
    for (const char* key : {"weight_block_size", "block_structure"}) {
      const Json* size = Member(json, key);
      if (size != nullptr && size->is_array() &&
          *size != Json::array({128, 128})) {
        return fmt::format("{} of {}", key, size->dump());
      }
    }
  }
  return "";
}

}  // namespace

std::string RotationOf(const Json& config) {
  for (const SaidQuantization& said : QuantizationsIn(config)) {
    if (const auto names = TransformsOf(*said.json); !names.empty()) {
      return fmt::format("config.json's {} has a transform_config ({})",
                         said.place, names);
    }
  }
  return "";
}

absl::Status RefuseUnclear(const Model& model, const StoredModel& stored,
                           const std::vector<Pattern>* ignore) {
  const auto block = std::ranges::find_if(stored.weights, [](const auto& w) {
    return w.layout->format == WeightFormat::kFp8Block;
  });
  if (const auto said = RotationOf(model.config()); !said.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}: its weights are rotated, and engines that read this rotate "
        "their inputs, which the output could not declare; take the original "
        "model, or serve this one as it is",
        model.path(), said));
  }
  for (const SaidQuantization& said : QuantizationsIn(model.config())) {
    if (block == stored.weights.end() || !said.json->is_object()) continue;
    if (const auto other = OtherBlocks(*said.json); !other.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: {} in config.json has a {}, but only FP8 blocks "
                      "of 128 x 128 are supported; use the original model",
                      model.path(), block->module, said.place, other));
    }
  }
  size_t count = 0;
  const UnclearWeight* first = nullptr;
  for (const auto* list : {&stored.unclear, &stored.altered, &stored.orphans}) {
    for (const UnclearWeight& u : *list) {
      if (ignore && FirstMatch(*ignore, u.module) != nullptr) continue;
      if (count++ == 0) first = &u;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}: {}{}; use the original model{}", model.path(), first->module,
      first->why,
      count > 1 ? fmt::format(", and {} more such weights", count - 1) : "",
      ignore ? fmt::format(", or copy it unchanged with --ignore {} if your "
                           "engine loads this format",
                           first->module)
             : ""));
}

}  // namespace quantd::checkpoint
