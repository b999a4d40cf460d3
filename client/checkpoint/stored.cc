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

// Whether `dtype` is acceptable for a scale that `part` says is fp32: libraries
// keep the weight's type, and block scales may be powers of two.
bool IsTypeOf(const WeightLayout& layout, const StoredPart& part,
              const std::string& dtype) {
  if (part.dtype == dtype) return true;
  if (part.source != PartSource::kScales || part.dtype != "F32") return false;
  const bool power = dtype == "F8_E8M0" || dtype == "U8";
  return dtype == "BF16" || dtype == "F16" ||
         (power && layout.scale_shape == ScaleShape::kBlocks);
}

// The weight of that layout whose codes this tensor holds; nullopt if it is not
// one.
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
    // A single number may have any shape.
    const bool number = part.source == PartSource::kGlobal &&
                        found->stored.size == sizeof(float);
    if (found->stored.shape != want && !number) return std::nullopt;
  }
  return w;
}

// The tensors of weights that are not plain, by module.
using PartGroups = std::map<std::string, std::vector<const ModelTensor*>>;

PartGroups GroupsOf(const Model& model) {
  PartGroups groups;
  for (const ModelTensor& t : model.tensors()) {
    const auto [storage, module] = StorageOf(t.stored);
    if (!module.empty()) groups[module].push_back(&t);
  }
  return groups;
}

// Describes the sibling tensors of a weight, for a message.
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
    if (std::find(parts.begin(), parts.end(), &t->stored) != parts.end()) {
      continue;
    }
    parts.push_back(&t->stored);
  }
  const std::string may = MayBe(module, parts);
  return DescribeParts(module, parts) +
         (may.empty() ? "" : fmt::format(" ({})", may));
}

// Classifies tensors that are not part of `out->weights`.
void SortUnclear(const Model& model, const PartGroups& groups,
                 const std::map<std::string, const ModelTensor*>& codes,
                 StoredModel* out) {
  std::set<const ModelTensor*> parts;
  std::set<std::string_view> clear;
  for (const StoredWeight& w : out->weights) {
    parts.insert(w.parts.begin(), w.parts.end());
    clear.insert(w.module);
  }
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
    if (std::all_of(u.tensors.begin(), u.tensors.end(), [](const auto* t) {
          return StorageOf(t->stored).storage == Storage::kFactor;
        })) {
      std::vector<const safetensors::Tensor*> factors;
      for (const ModelTensor* t : u.tensors) factors.push_back(&t->stored);
      u.why = fmt::format("{}, to be folded by {}", text, FoldingOf(factors));
      out->factored.push_back(std::move(u));
    } else if (known) {
      u.why = "beside its codes is what changes its numbers: " + text;
      out->altered.push_back(std::move(u));
    } else if (plain || codes.count(module) > 0) {
      u.why = "its parts fit no dialect: " + text;
      const ModelTensor* weight = model.Find(module + ".weight");
      if (weight != nullptr &&
          std::find(tensors.begin(), tensors.end(), weight) == tensors.end()) {
        u.tensors.push_back(weight);
      }
      out->unclear.push_back(std::move(u));
    } else if (!std::all_of(tensors.begin(), tensors.end(), [](const auto* t) {
                 return IsCommon(t->stored);
               })) {
      u.why = "scales of a weight that is not there: " + text;
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

bool StoredWeight::has_four_bits() const {
  return FindFormat(layout->codes)->element == DType::kE2M1x2;
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
  const auto said = QuantizationsIn(config);
  if (said.empty() || !said.front().json->is_object()) return Dialect::kNone;
  const auto method = said.front().json->find("quant_method");
  if (method == said.front().json->end() || !method->is_string()) {
    return Dialect::kNone;
  }
  const auto& name = method->get_ref<const std::string&>();
  if (name == "compressed-tensors") return Dialect::kCompressedTensors;
  if (name.starts_with("modelopt")) return Dialect::kModelOpt;
  if (name == "fp8") return Dialect::kDeepSeek;
  if (name == "mxfp4") return Dialect::kGptOss;
  return Dialect::kNone;
}

bool HasComfyLabels(const Model& model) {
  return std::any_of(model.tensors().begin(), model.tensors().end(),
                     [](const ModelTensor& t) {
                       return t.name().ends_with(".comfy_quant");
                     }) ||
         std::any_of(model.shards().begin(), model.shards().end(),
                     [](const ModelShard& shard) {
                       return shard.file.metadata().count(kComfyMetadata) > 0;
                     });
}

absl::StatusOr<StoredModel> FindStored(const Model& model) {
  StoredModel out;
  const Dialect configured = ConfiguredDialect(model.config());
  const PartGroups groups = GroupsOf(model);
  std::map<std::string, const ModelTensor*> seen;  // modules, by their codes
  std::set<std::string> known;                     // modules with a layout
  const bool labelled = HasComfyLabels(model);
  for (const ModelTensor& tensor : model.tensors()) {
    std::optional<StoredWeight> best;
    for (const WeightLayout& layout : AllLayouts()) {
      if (StoredAs(layout.format) != layout.format) continue;
      auto match = Match(model, tensor, layout);
      if (!match) continue;
      // Some layouts of two dialects have the same tensors. ComfyUI's differ
      // only in the order of bytes, and it takes weights without a label for
      // plain numbers.
      const bool comfy = layout.dialect == Dialect::kComfy;
      if (comfy && !labelled) continue;
      if (!best || comfy || layout.dialect == configured) best = match;
    }
    // Weights with ComfyUI's label are ComfyUI's, or of no known dialect.
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
    // Unknown libraries may have several tensors of codes.
    const bool alone = fresh || known.count(module) == 0;
    if (alone && (plain == nullptr || plain == &tensor || !fresh)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} is there twice, in two dialects at once: {}", model.path(),
        module.substr(0, 200), Siblings(model, module, groups)));
  }
  SortUnclear(model, groups, seen, &out);
  return out;
}

namespace {

// The FP8 block size in a description, if it is not 128 x 128, since shapes of
// scales do not always reveal it; empty: none.
std::string OtherBlocks(const Json& quantization) {
  std::vector<const Json*> said = {&quantization};
  if (const auto groups = quantization.find("config_groups");
      groups != quantization.end() && groups->is_object()) {
    for (const auto& group : *groups) {
      if (!group.is_object() || !group.contains("weights")) continue;
      said.push_back(&group["weights"]);
    }
  }
  for (const Json* json : said) {
    for (const char* key : {"weight_block_size", "block_structure"}) {
      if (!json->is_object() || !json->contains(key)) continue;
      const Json& size = (*json)[key];
      if (size.is_array() && size != Json::array({128, 128})) {
        return fmt::format("{} of {}", key, size.dump());
      }
    }
  }
  return "";
}

}  // namespace

absl::Status RefuseUnclear(const Model& model, const StoredModel& stored,
                           const std::vector<Pattern>* ignore) {
  const auto block = std::find_if(
      stored.weights.begin(), stored.weights.end(), [](const auto& w) {
        return w.layout->format == WeightFormat::kFp8Block;
      });
  for (const SaidQuantization& said : QuantizationsIn(model.config())) {
    if (block == stored.weights.end() || !said.json->is_object()) continue;
    if (const auto other = OtherBlocks(*said.json); !other.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {}: config.json's {} has a {}, and FP8 blocks are read as "
          "128 x 128 here; take the original model",
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
      "{}: {}: {}{}; take the original model{}", model.path(), first->module,
      first->why,
      count > 1 ? fmt::format(", and {} more weights like it", count - 1) : "",
      ignore ? fmt::format(", or let --ignore {} carry it as it is, which only "
                           "an engine that knows it can load",
                           first->module)
             : ""));
}

}  // namespace quantd::checkpoint
