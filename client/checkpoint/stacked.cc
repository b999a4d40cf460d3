#include "client/checkpoint/stacked.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kExperts = "expert";
constexpr std::string_view kStep = "moe";

struct StackRow {
  std::string_view leaf;
  // projections, whose rows follow each other
  Words parts;
  bool back = false;  // N, and not K, is the hidden size
  // The last name of the parent. kExperts stands for any parent with this word
  // in its name.
  std::string_view under = kExperts;
};
constexpr StackRow kStackRows[] = {
    {"gate_up_proj", "gate_proj up_proj"},
    {"w13", "w1 w3"},
    {"gate_proj", "gate_proj"},
    {"up_proj", "up_proj"},
    {"w1", "w1"},
    {"w3", "w3"},
    {"down_proj", "down_proj", /*back=*/true},
    {"w2", "w2", /*back=*/true},
    // Granite, and Step 3.5 and later. vLLM and SGLang expect the quantized
    // experts below "experts".
    {"input_linear", "gate_proj up_proj", false, "block_sparse_moe"},
    {"output_linear", "down_proj", /*back=*/true, "block_sparse_moe"},
    {"gate_proj", "gate_proj", false, kStep},
    {"up_proj", "up_proj", false, kStep},
    {"down_proj", "down_proj", /*back=*/true, kStep},
};

// Model types that store experts as K rows of N.
constexpr std::string_view kInputFirst[] = {
    "llama4", "llama4_text", "gpt_oss", "qwen3_vl_moe", "qwen3_vl_moe_text"};

// Types for which transformers 5 does not join single experts to stacks.
constexpr Words kStacksAlone = R"(
    llama4 llama4_text gpt_oss qwen3_vl_moe qwen3_vl_moe_text granitemoe
    granitemoehybrid granitemoeshared step3p5 step3p7)";

const StackRow* RowOf(const ModuleName& name) {
  for (const StackRow& row : kStackRows) {
    const bool right =
        row.under == kExperts
            ? name.parent.find(kExperts) != std::string_view::npos
            : SplitModule(name.parent).leaf == row.under;
    if (row.leaf == name.leaf && right) return &row;
  }
  return nullptr;
}

// Whether the name is one that only experts have.
bool IsOfExperts(const ModuleName& name) {
  return name.parent.find(kExperts) != std::string_view::npos ||
         name.parent.find("_moe") != std::string_view::npos ||
         name.parent.find(".moe") != std::string_view::npos ||
         name.parent.starts_with("moe") || name.leaf == "input_linear" ||
         name.leaf == "output_linear";
}

// Whether the stack stores K rows of N. nullopt if N equals K or neither is the
// hidden size.
std::optional<bool> IsInputFirst(const ModelTensor& tensor, const StackRow& row,
                                 int64_t hidden) {
  const std::vector<int64_t>& shape = tensor.stored.shape;
  // The dimension that is the hidden size if the stack stores N x K.
  const int64_t first = row.back ? shape[1] : shape[2];
  const int64_t last = row.back ? shape[2] : shape[1];
  if (first == last || (first != hidden && last != hidden)) return std::nullopt;
  return first != hidden;
}

// Decides by other stacks, preferably of the same layer, because all stacks of
// a model have the same order. nullopt if their orders are unknown, too.
std::optional<bool> ByOthers(const Model& model, std::string_view parent,
                             int64_t hidden) {
  std::optional<bool> other;
  for (const ModelTensor& t : model.tensors()) {
    const ModuleName name = SplitModule(ModuleOf(t.name()));
    const StackRow* row = IsStacked(t) ? RowOf(name) : nullptr;
    if (row == nullptr) continue;
    const auto told = IsInputFirst(t, *row, hidden);
    if (told && name.parent == parent) return told;
    if (told && !other) other = told;
  }
  return other;
}

}  // namespace

bool IsStacked(const ModelTensor& tensor) {
  const ModuleName name = SplitModule(ModuleOf(tensor.name()));
  const std::vector<int64_t>& shape = tensor.stored.shape;
  if (shape.size() != 3) return false;
  if (RowOf(name) != nullptr) return true;
  // Other names count if they belong to experts and not to a convolution.
  return shape[0] > 1 && shape[1] > 1 && shape[2] > 1 && IsOfExperts(name) &&
         name.leaf.find("conv") == std::string_view::npos &&
         name.leaf.find("bias") == std::string_view::npos;
}

bool IsExpertOfEngines(std::string_view model_type, std::string_view leaf) {
  // Engines do not quantize the experts of this type.
  if (model_type == "arctic") return false;
  return std::ranges::any_of(kStackRows, [&](const StackRow& row) {
    return row.under == kExperts && (row.leaf == leaf || Has(row.parts, leaf));
  });
}

bool LoadsStacksAlone(std::string_view model_type) {
  return Has(kStacksAlone, model_type);
}

void StackAgain(std::string_view model_type,
                std::vector<DecodedWeight>* decoded) {
  if (!Has(kInputFirst, model_type)) return;
  // Places in the list, by the name above, the last name and the number.
  std::map<std::string, std::map<std::string_view, std::map<int64_t, size_t>>>
      layers;
  for (size_t i = 0; i < decoded->size(); ++i) {
    const std::string_view module = (*decoded)[i].stored.module;
    const std::string_view above = ExpertsAbove(module);
    if (above.empty()) continue;
    const NameParts rest = Split(module.substr(above.size() + 1), '.');
    if (rest.size() != 2 || !IsIndex(rest[0])) continue;
    layers[std::string(above)][rest[1]][std::stoll(std::string(rest[0]))] = i;
  }
  std::vector<DecodedWeight> stacks;
  std::set<size_t> taken;
  for (auto& [above, leaves] : layers) {
    // transformers tells the orientation of these stacks by their shape.
    const auto& gates = leaves["gate_proj"];
    if (model_type.starts_with("qwen3_vl_moe") && !gates.empty()) {
      const StoredWeight& gate = (*decoded)[gates.begin()->second].stored;
      if (2 * gate.rows == gate.cols) continue;
    }
    for (const std::string_view leaf : {"gate_up_proj", "down_proj"}) {
      const StackRow& row = *RowOf({above, leaf});
      const auto& first = leaves[row.parts.front()];
      if (first.empty()) continue;
      DecodedWeight stack = {(*decoded)[first.begin()->second].stored,
                             fmt::format("{}.{}", above, leaf)};
      stack.joined = static_cast<int64_t>(row.parts.size());
      std::vector<size_t> places;
      bool whole = true;
      for (int64_t e = 0; e < static_cast<int64_t>(first.size()); ++e) {
        for (const std::string_view part : row.parts) {
          const auto& experts = leaves[part];
          const auto found = experts.find(e);
          whole &= found != experts.end() && experts.size() == first.size();
          if (!whole) break;
          const StoredWeight& w = (*decoded)[found->second].stored;
          whole &= w.rows == stack.stored.rows && w.cols == stack.stored.cols;
          places.push_back(found->second);
          stack.experts.push_back(w);
        }
      }
      if (!whole) continue;
      taken.insert(places.begin(), places.end());
      stacks.push_back(std::move(stack));
    }
  }
  for (size_t i = 0; i < decoded->size(); ++i) {
    if (taken.count(i) == 0) stacks.push_back(std::move((*decoded)[i]));
  }
  *decoded = std::move(stacks);
}

absl::StatusOr<std::vector<Weight>> Unstack(const Model& model,
                                            const ModelTensor& tensor,
                                            bool whole) {
  const auto [parent, leaf] = SplitModule(ModuleOf(tensor.name()));
  const StackRow* known = RowOf({parent, leaf});
  const std::string type = model.model_type();
  if (known == nullptr ||
      (known->under == kStep && !type.starts_with("step3p"))) {
    return absl::InvalidArgumentError(
        "a stack of experts, and no engine is known to support quantized "
        "experts with that name");
  }
  const StackRow& row = *known;
  const std::vector<int64_t>& shape = tensor.stored.shape;
  const int64_t hidden = FactsOf(model.config()).hidden_size;
  if (shape[1] != hidden && shape[2] != hidden) {
    return absl::InvalidArgumentError(
        fmt::format("a stack of experts, and none of its dimensions is the "
                    "hidden_size of config.json ({})",
                    hidden));
  }
  auto turned = IsInputFirst(tensor, row, hidden);
  if (!turned) turned = ByOthers(model, parent, hidden);
  if (!turned && Has(kInputFirst, type)) turned = true;
  if (!turned) {
    return absl::InvalidArgumentError(
        "a stack of experts with N = K, and no other stack shows whether it is "
        "stored as N x K or K x N");
  }
  const bool transposed = *turned;
  const int64_t rows = transposed ? shape[2] : shape[1];
  const int64_t cols = transposed ? shape[1] : shape[2];
  const std::string bias = std::string(ModuleOf(tensor.name())) + "_bias";
  if (!whole && model.Find(bias) != nullptr) {
    return absl::InvalidArgumentError(
        "a stack of experts with biases, which only --dialect gpt-oss can "
        "store");
  }
  const Words parts = whole ? Words(leaf) : row.parts;
  const auto count = static_cast<int64_t>(parts.size());
  if (rows % count != 0) {
    return absl::InvalidArgumentError(
        "a stack of gate and up projections with an odd number of rows");
  }
  const size_t element =
      static_cast<size_t>(safetensors::BitsOf(tensor.stored.dtype) / 8);
  const size_t expert = static_cast<size_t>(rows * cols) * element;
  std::vector<Weight> weights;
  for (int64_t e = 0; e < shape[0]; ++e) {
    int64_t i = 0;
    for (const std::string_view part : parts) {
      Weight w;
      w.module =
          whole ? std::string(ModuleOf(tensor.name()))
                : fmt::format("{}{}.{}.{}", parent,
                              row.under == kExperts ? "" : ".experts", e, part);
      w.source = &tensor;
      w.transposed = transposed;
      w.rows = rows / count;
      w.cols = cols;
      w.pitch = static_cast<size_t>(shape[2]) * element;
      const size_t before =
          static_cast<size_t>(i++ * w.rows) * (transposed ? element : w.pitch);
      w.offset = static_cast<size_t>(e) * expert + before;
      weights.push_back(std::move(w));
    }
  }
  return weights;
}

}  // namespace quantd::checkpoint
