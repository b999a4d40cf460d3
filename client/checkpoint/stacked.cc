#include "client/checkpoint/stacked.h"

#include <algorithm>
#include <string_view>

#include "client/checkpoint/architecture.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

struct StackRow {
  std::string_view leaf;
  std::vector<std::string_view> parts;  // whose rows follow each other
  bool back = false;                    // its N is the hidden size, not its K
};
const std::vector<StackRow>& Stacks() {
  static const auto* const rows = new std::vector<StackRow>{
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"w13", {"w1", "w3"}},
      {"gate_proj", {"gate_proj"}},
      {"up_proj", {"up_proj"}},
      {"w1", {"w1"}},
      {"w3", {"w3"}},
      {"down_proj", {"down_proj"}, /*back=*/true},
      {"w2", {"w2"}, /*back=*/true},
  };
  return *rows;
}

// Those that store K rows of N.
constexpr std::string_view kInputFirst[] = {
    "llama4", "llama4_text", "gpt_oss", "qwen3_vl_moe", "qwen3_vl_moe_text"};

const StackRow* RowOf(std::string_view leaf) {
  for (const StackRow& row : Stacks()) {
    if (row.leaf == leaf) return &row;
  }
  return nullptr;
}

int64_t HiddenSize(const Json& config) {
  for (const Json* place : {&config}) {
    const auto own = place->find("hidden_size");
    if (own != place->end() && own->is_number_integer()) {
      return own->get<int64_t>();
    }
  }
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? HiddenSize(*text) : 0;
}

}  // namespace

bool IsStacked(const ModelTensor& tensor) {
  const auto [parent, leaf] = SplitModule(ModuleOf(tensor.name()));
  return tensor.stored.shape.size() == 3 &&
         parent.find("expert") != std::string_view::npos &&
         RowOf(leaf) != nullptr;
}

absl::StatusOr<std::vector<Weight>> Unstack(const Model& model,
                                            const ModelTensor& tensor,
                                            bool whole) {
  const auto [parent, leaf] = SplitModule(ModuleOf(tensor.name()));
  const StackRow& row = *RowOf(leaf);
  const std::vector<int64_t>& shape = tensor.stored.shape;
  const int64_t hidden = HiddenSize(model.config());
  const int64_t first = row.back ? shape[1] : shape[2];  // hidden if N x K
  const int64_t last = row.back ? shape[2] : shape[1];
  const std::string type = model.model_type();
  const bool listed = std::find(std::begin(kInputFirst), std::end(kInputFirst),
                                type) != std::end(kInputFirst);
  if (first != hidden && last != hidden) {
    return absl::InvalidArgumentError(fmt::format(
        "a stack of experts, and config.json's hidden_size ({}) is neither of "
        "its dimensions",
        hidden));
  }
  const bool transposed = first == last ? listed : first != hidden;
  const int64_t rows = transposed ? shape[2] : shape[1];
  const int64_t cols = transposed ? shape[1] : shape[2];
  const std::string bias = std::string(ModuleOf(tensor.name())) + "_bias";
  if (!whole && model.Find(bias) != nullptr) {
    return absl::InvalidArgumentError(
        "a stack of experts with biases; --dialect gpt-oss keeps it one");
  }
  const auto parts = whole ? std::vector<std::string_view>{leaf} : row.parts;
  const auto count = static_cast<int64_t>(parts.size());
  if (rows % count != 0) {
    return absl::InvalidArgumentError("a stack of gate and up of odd rows");
  }
  const size_t element =
      static_cast<size_t>(safetensors::BitsOf(tensor.stored.dtype) / 8);
  const size_t expert = static_cast<size_t>(rows * cols) * element;
  std::vector<Weight> weights;
  for (int64_t e = 0; e < shape[0]; ++e) {
    for (int64_t i = 0; i < count; ++i) {
      Weight w;
      w.module = whole ? std::string(ModuleOf(tensor.name()))
                       : fmt::format("{}.{}.{}", parent, e, parts[i]);
      w.source = &tensor;
      w.transposed = transposed;
      w.rows = rows / count;
      w.cols = cols;
      w.pitch = static_cast<size_t>(shape[2]) * element;
      const size_t before =
          static_cast<size_t>(i * w.rows) * (transposed ? element : w.pitch);
      w.offset = static_cast<size_t>(e) * expert + before;
      weights.push_back(std::move(w));
    }
  }
  return weights;
}

}  // namespace quantd::checkpoint
