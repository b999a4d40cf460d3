#include "client/checkpoint/check/shape_table.h"

#include <array>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/names.h"
#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

constexpr Words kPlain = R"(
    llama mistral ministral mixtral qwen2 qwen3 smollm3 seed_oss qwen3_moe
    qwen2_moe gemma gemma2 granite gpt_oss olmo2 cohere arcee)";
// Known types whose layers differ in other parts than experts: recurrent
// layers, or a first layer with more parts.
constexpr Words kMixed = "qwen3_next minimax llama4 llama4_text t5 gemma3n";
// Types whose layers have all of Llama's parts, under Llama's names.
constexpr std::string_view kLlamaLike[] = {
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss"};
constexpr std::string_view kLlamaParts[] = {
    "input_layernorm.weight",  "post_attention_layernorm.weight",
    "self_attn.q_proj.weight", "self_attn.k_proj.weight",
    "self_attn.v_proj.weight", "self_attn.o_proj.weight"};
constexpr std::string_view kLlamaModules[] = {
    "self_attn", "mlp", "input_layernorm", "post_attention_layernorm"};
// Files of Mixtral use "mlp" or "block_sparse_moe".
constexpr std::string_view kMixtralModules[] = {
    "self_attn", "mlp", "block_sparse_moe", "input_layernorm",
    "post_attention_layernorm"};
// Types without experts.
constexpr std::string_view kDense[] = {"llama", "mistral", "qwen2", "qwen3"};
constexpr std::string_view kDenseParts[] = {
    "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"};
// Additional parts of one type.
struct MoreParts {
  std::string_view type;
  std::array<std::string_view, 3> parts;
};
constexpr MoreParts kMoreParts[] = {
    {"qwen2",
     {"self_attn.q_proj.bias", "self_attn.k_proj.bias",
      "self_attn.v_proj.bias"}},
    {"qwen3", {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}},
    {"qwen3_moe", {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}},
    {"gpt_oss", {"self_attn.sinks", "mlp.router.weight", "mlp.router.bias"}},
};
constexpr Words kBiases = "llama qwen3 qwen3_moe gpt_oss";
// Types whose q_norm and k_norm do not have the size head_dim.
constexpr std::string_view kOtherNorms[] = {"olmo2", "cohere"};

using Number = std::optional<int64_t>;

Number Times(Number a, Number b) {
  return a && b ? Number(*a * *b) : std::nullopt;
}

// nullopt if the number is missing or invalid. Another rule reports the latter.
Number CountIn(const Json& config, std::string_view key) {
  const Number n = ModelNumber(config, key);
  return n && *n > 0 ? n : std::nullopt;
}

std::optional<std::vector<int64_t>> Both(Number rows, Number cols) {
  if (!rows || !cols) return std::nullopt;
  return std::vector<int64_t>{*rows, *cols};
}
std::optional<std::vector<int64_t>> One(Number n) {
  if (!n) return std::nullopt;
  return std::vector<int64_t>{*n};
}

}  // namespace

bool IsPlainDecoder(std::string_view type) { return Has(kPlain, type); }
bool HasUniformLayers(std::string_view type) { return !Has(kMixed, type); }
std::vector<std::string_view> PartsOfLayers(std::string_view type) {
  std::vector<std::string_view> parts;
  if (!Has(kLlamaLike, type)) return parts;
  parts.assign(std::begin(kLlamaParts), std::end(kLlamaParts));
  if (Has(kDense, type)) {
    parts.insert(parts.end(), std::begin(kDenseParts), std::end(kDenseParts));
  }
  for (const MoreParts& more : kMoreParts) {
    if (more.type != type) continue;
    for (const std::string_view part : more.parts) {
      if (!part.empty()) parts.push_back(part);
    }
  }
  return parts;
}
absl::Span<const std::string_view> ModulesOfLayers(std::string_view type) {
  if (!Has(kLlamaLike, type)) return {};
  if (type == "mixtral") return kMixtralModules;
  return kLlamaModules;
}
bool SaysBiases(std::string_view type) { return Has(kBiases, type); }

std::optional<int64_t> ExpertsOf(const Json& config) {
  for (const char* key :
       {"num_local_experts", "n_routed_experts", "num_experts"}) {
    if (const auto n = ModelNumber(config, key)) return n;
  }
  return std::nullopt;
}

ShapeTable::ShapeTable(const Json& config, std::string_view type)
    : known_(IsPlainDecoder(type)) {
  hidden_ = CountIn(config, "hidden_size");
  words_ = CountIn(config, "vocab_size");
  wide_ = CountIn(config, "intermediate_size");
  expert_ = CountIn(config, "moe_intermediate_size");
  if (!expert_) expert_ = wide_;
  const Number heads = CountIn(config, "num_attention_heads");
  Number groups = CountIn(config, "num_key_value_heads");
  if (!groups) groups = heads;
  head_ = CountIn(config, "head_dim");
  if (!head_ && hidden_ && heads && *heads > 0) head_ = *hidden_ / *heads;
  queries_ = Times(heads, head_);
  keys_ = Times(groups, head_);
  own_attention_ = Has(kOtherNorms, type);
}

std::optional<std::vector<int64_t>> ShapeTable::Of(
    std::string_view tensor) const {
  constexpr std::string_view kWeight = ".weight";
  if (!known_ || !tensor.ends_with(kWeight)) return std::nullopt;
  const std::string_view leaf = SplitModule(ModuleOf(tensor)).leaf;
  const bool shared = tensor.find("shared_expert") != std::string_view::npos;
  if (shared) return std::nullopt;
  if (leaf == "embed_tokens" || leaf == "lm_head") return Both(words_, hidden_);
  if (leaf == "q_proj") return Both(queries_, hidden_);
  if (leaf == "k_proj" || leaf == "v_proj") return Both(keys_, hidden_);
  if (leaf == "o_proj") return Both(hidden_, queries_);
  if (leaf == "input_layernorm" || leaf == "post_attention_layernorm" ||
      tensor == "model.norm.weight") {
    return One(hidden_);
  }
  if ((leaf == "q_norm" || leaf == "k_norm") && !own_attention_) {
    return One(head_);
  }
  const bool stack = IsExperts(tensor) && ExpertOf(tensor).number < 0;
  if (stack) return std::nullopt;
  const Number wide = IsExperts(tensor) ? expert_ : wide_;
  if (leaf == "gate_proj" || leaf == "up_proj" || leaf == "w1" ||
      leaf == "w3") {
    return Both(wide, hidden_);
  }
  if (leaf == "down_proj" || leaf == "w2") return Both(hidden_, wide);
  return std::nullopt;
}

}  // namespace quantd::checkpoint
