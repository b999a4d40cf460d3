#include "client/checkpoint/check/tied_head.h"

#include <algorithm>
#include <iterator>

#include "client/checkpoint/check/declared.h"

namespace quantd::checkpoint {
namespace {

// What transformers takes for granted of a type whose config.json says nothing.
constexpr std::string_view kTied[] = {
    "bloom",  "cohere",      "cohere2", "falcon",  "gemma",
    "gemma2", "gemma3_text", "gpt2",    "smollm3", "starcoder2"};
constexpr std::string_view kUntied[] = {
    "apertus",   "arcee",      "deepseek_v2", "deepseek_v3", "exaone4",
    "glm",       "glm4",       "glm4_moe",    "gpt_neox",    "gpt_oss",
    "granite",   "granitemoe", "kimi_k2",     "llama",       "llama4_text",
    "ministral", "mistral",    "mixtral",     "nemotron",    "olmo",
    "olmo2",     "olmoe",      "phi",         "phi3",        "qwen2",
    "qwen2_moe", "qwen3",      "qwen3_moe",   "qwen3_next",  "seed_oss",
    "stablelm"};

template <size_t kCount>
bool Lists(const std::string_view (&list)[kCount], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::optional<bool> Said(const Json* object) {
  const Json* said = Member(object, kTiedHead);
  if (said == nullptr || !said->is_boolean()) return std::nullopt;
  return said->get<bool>();
}

}  // namespace

std::optional<bool> IsHeadTied(const Json& config, std::string_view type) {
  const auto own = Said(&config);
  const auto text = Said(Member(&config, "text_config"));
  if (own && text && *own != *text) return std::nullopt;
  if (own || text) return own ? own : text;
  if (Lists(kTied, type)) return true;
  if (Lists(kUntied, type)) return false;
  return std::nullopt;
}

}  // namespace quantd::checkpoint
