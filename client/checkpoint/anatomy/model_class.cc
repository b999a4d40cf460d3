#include "client/checkpoint/anatomy/model_class.h"

#include <algorithm>
#include <string_view>

#include "client/checkpoint/anatomy/config_facts.h"

namespace quantd::checkpoint {
namespace {

// Endings of the names of classes that generate text from any input.
constexpr std::string_view kWriters[] = {
    "CausalLM",           "LMHeadModel",        "ForConditionalGeneration",
    "ForVision2Seq",      "ForImageTextToText", "ForSpeechSeq2Seq",
    "EncoderDecoderModel"};
// Endings of the names of classes that add only heads to the layers of their
// family. Families for images have such classes, too, so the family must be
// known.
constexpr std::string_view kReaders[] = {"ForMaskedLM",
                                         "ForSequenceClassification",
                                         "ForTokenClassification",
                                         "ForQuestionAnswering",
                                         "ForMultipleChoice",
                                         "ForNextSentencePrediction",
                                         "ForPreTraining",
                                         "ForRewardModel",
                                         "ForProcessRewardModel",
                                         "ForTextEncoding",
                                         "ForTextEmbedding",
                                         "ForScore"};
// Families of language models and text encoders: the beginning of a class or
// model_type, in lower case without '_' and '-'.
constexpr std::string_view kFamilies[] = {
    "apertus",      "arcee",       "arctic",
    "baichuan",     "bailing",     "bamba",
    "bart",         "bert",        "bigbird",
    "blenderbot",   "bloom",       "camembert",
    "chatglm",      "cliptext",    "codegen",
    "cohere",       "convbert",    "cwm",
    "dbrx",         "deberta",     "deepseek",
    "distilbert",   "dots1",       "dreammodel",
    "electra",      "ernie",       "esm",
    "eurobert",     "exaone",      "falcon",
    "flaubert",     "flexolmo",    "gemma",
    "glm",          "gpt",         "granite",
    "helium",       "hunyuanv1",   "internlm",
    "jais",         "jamba",       "jinabert",
    "kimik",        "kimilinear",  "lfm2",
    "llada",        "llama",       "longcat",
    "longformer",   "longt5",      "m2m100",
    "mamba",        "marian",      "mbart",
    "megatronbert", "minicpm",     "minimax",
    "ministral",    "mistral",     "mixtral",
    "mobilebert",   "modernbert",  "mpnet",
    "mpt",          "mt5",         "nemotron",
    "neobert",      "newmodel",    "nomicbert",
    "olmo",         "optmodel",    "orion",
    "pegasus",      "persimmon",   "phi",
    "plamo",        "qwen",        "recurrentgemma",
    "refinedweb",   "rembert",     "roberta",
    "roformer",     "rwkv",        "seedoss",
    "smollm",       "squeezebert", "stablelm",
    "starcoder",    "step3",       "t5",
    "umt5",         "whisper",     "xglm",
    "xlm",          "xlnet",       "xverse",
    "zamba"};
// Endings of the names of diffusers' classes, and Wan's own class.
constexpr std::string_view kDiffusers[] = {
    "Transformer2DModel", "Transformer3DModel", "UNet2DConditionModel",
    "DiT2DModel",         "DiTModel",           "WanModel"};

template <typename Words>
bool EndsWithOne(std::string_view text, const Words& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](auto word) { return text.ends_with(word); });
}

std::string TextOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const bool list =
      found->is_array() && !found->empty() && found->front().is_string();
  return list ? found->front().get<std::string>() : "";
}

bool IsOfFamily(std::string_view name) {
  std::string small;
  for (const char c : name) {
    if (c == '_' || c == '-') continue;
    small += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view tower : {"vision", "audio", "speech", "image"}) {
    if (small.find(tower) != std::string::npos) return false;
  }
  return std::any_of(
      std::begin(kFamilies), std::end(kFamilies),
      [&](std::string_view family) { return small.starts_with(family); });
}

ModelClass ClassOfOne(const Json& config) {
  using K = ModelKind;
  if (const std::string name = TextOf(config, "_class_name"); !name.empty()) {
    return {EndsWithOne(name, kDiffusers) ? K::kDiffusion : K::kOther, name};
  }
  if (const std::string name = TextOf(config, "architectures"); !name.empty()) {
    // The text after "For" is the class's task. A class without it has no head.
    const bool bare = name.find("For") == std::string::npos;
    const bool known =
        EndsWithOne(name, kWriters) ||
        (IsOfFamily(name) && (bare || EndsWithOne(name, kReaders)));
    const bool by_end = known && !IsOfFamily(name) &&
                        name.ends_with("ForConditionalGeneration");
    return {known ? K::kLanguage : K::kOther, name, by_end};
  }
  for (const char* key : {"model_type", "type"}) {
    if (const std::string name = TextOf(config, key); !name.empty()) {
      return {IsOfFamily(name) ? K::kLanguage : K::kOther, name};
    }
  }
  return {};
}

}  // namespace

ModelClass ClassIn(const Json& config) {
  if (!config.is_object()) return {};
  ModelClass outer = ClassOfOne(config);
  if (outer.kind == ModelKind::kLanguage ||
      outer.kind == ModelKind::kDiffusion) {
    return outer;
  }
  const auto chain = LanguageChain(config);
  const bool holds =
      std::any_of(chain.begin(), chain.end() - 1, [](const Json* inner) {
        return ClassOfOne(*inner).kind == ModelKind::kLanguage ||
               IsOfFamily(TextOf(*inner, "model_type"));
      });
  if (holds) outer.kind = ModelKind::kHolder;
  return outer;
}

}  // namespace quantd::checkpoint
