#include "client/checkpoint/anatomy/config_facts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

constexpr Words kLanguage = "text llm vlm language thinker";
constexpr std::string_view kTowers[] = {
    "vision",    "visual",   "audio", "speech",   "vit",   "image",
    "projector", "modality", "codec", "acoustic", "action"};
// Words in the model_type of nested models for images or sound.
constexpr std::string_view kTowerTypes[] = {
    "deit",    "beit",   "swin",    "resnet", "dino", "clip", "siglip",
    "whisper", "hubert", "wav2vec", "wavlm",  "mimi", "dac"};
// Types of models that consist of draft heads only. No engine quantizes them.
constexpr std::string_view kDraftTypes[] = {"medusa", "mlp_speculator"};
// Keys that only configurations for images or sound have.
constexpr std::string_view kTowerKeys[] = {
    "image_size",     "patch_size",   "num_channels", "sampling_rate",
    "audio_channels", "num_mel_bins", "conv_dim",     "codebook_size"};

// The name of an output head other than lm_head, and its model types.
struct HeadName {
  std::string_view head;
  Words types;
};
// All _tied_weights_keys of transformers 5.
constexpr HeadName kHeadNames[] = {
    {"proj_out",
     "whisper moonshine moonshine_streaming canary canary_decoder cohere_asr"},
    {"output_projection", "biogpt trocr"},
    {"decoder.output_projection", "fsmt"},
    {"pred_layer.proj", "xlm flaubert"},
    {"embed_out", "gpt_neox_japanese"},
    {"vocab_projector", "distilbert"},
    {"unembedding_projection", "neomme"},
    {"lm_loss", "xlnet"},
    {"generator_lm_head", "electra"},
    {"head", "rwkv"},
    {"output", "git"},
    {"ctc_head", "granite_speech5_ctc"},
    {"decoder", "modernbert modernbert-decoder"},
    {"lm_head.out_proj", "t5gemma t5gemma2"},
    {"lm_head.decoder",
     "bert-generation camembert data2vec-text esm gte ibert jina_embeddings_v3"
     " longformer mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl"
     " xmod"},
    {"mlm_score.decoder", "bridgetower vilt"},
    {"predictions.decoder",
     "albert bert big_bird blip blip_text_model deberta deberta-v2 ernie fnet"
     " layoutlm lxmert megatron-bert mobilebert mra nomic_bert nystromformer"
     " roc_bert roformer squeezebert tapas visual_bert yoso"}};

int64_t NumberOf(const std::vector<const Json*>& chain, const Words& keys) {
  for (const Json* place : chain) {
    for (const std::string_view key : keys) {
      if (const auto n = IntegerOf(Member(place, key))) return *n;
    }
  }
  return 0;
}

bool IsTrue(const std::vector<const Json*>& chain, const char* key) {
  for (const Json* place : chain) {
    const Json* found = Member(place, key);
    if (found != nullptr && found->is_boolean()) return found->get<bool>();
  }
  return false;
}

std::string TypeOf(const Json& config) {
  return TextOf(Member(&config, "model_type")).value_or("");
}

bool IsTower(const std::string& key, const Json& config) {
  const std::string type = TypeOf(config);
  return HoldsOneOf(key, kTowers) || HoldsOneOf(type, kTowers) ||
         HoldsOneOf(type, kTowerTypes) ||
         std::ranges::any_of(kTowerKeys, [&](std::string_view tower) {
           return config.contains(tower);
         });
}

void CollectTowers(const Json& config, ConfigFacts* facts) {
  for (const auto& [key, value] : config.items()) {
    if (!value.is_object()) continue;
    if (HoldsOneOf(key, kLanguage)) {
      CollectTowers(value, facts);
    } else if (IsTower(key, value)) {
      facts->towers = true;
      facts->nested_towers.push_back(key.substr(0, key.rfind("_config")));
    }
  }
}

// MLX describes its quantization in "quantization". Other programs use that key
// for other purposes.
bool IsQuantization(const std::string& key, const Json& value) {
  if (value.is_null() || (value.is_object() && value.empty())) return false;
  return key == "quantization_config" || key == "compression_config" ||
         (key == "quantization" && value.is_object() &&
          (value.contains("bits") || value.contains("group_size")));
}

void Collect(const Json& config, const std::string& before,
             std::vector<SaidQuantization>* out) {
  // Engines read quantization_config first if there are several descriptions.
  for (const bool first : {true, false}) {
    for (const auto& [key, value] : config.items()) {
      if ((key == "quantization_config") == first &&
          IsQuantization(key, value)) {
        out->push_back({before + key, &value});
      }
    }
  }
  for (const auto& [key, value] : config.items()) {
    if (value.is_object() && !IsQuantization(key, value)) {
      Collect(value, before + key + ".", out);
    }
  }
}

// Endings of the names of classes that generate text from any input.
constexpr Words kWriters = R"(
    CausalLM LMHeadModel ForConditionalGeneration ForVision2Seq
    ForImageTextToText ForSpeechSeq2Seq EncoderDecoderModel)";
// Endings of the names of classes that add only heads to the layers of their
// family. Families for images have such classes, too, so the family must be
// known.
constexpr Words kReaders = R"(
    ForMaskedLM ForSequenceClassification ForTokenClassification
    ForQuestionAnswering ForMultipleChoice ForNextSentencePrediction
    ForPreTraining ForRewardModel ForProcessRewardModel ForTextEncoding
    ForTextEmbedding ForScore)";
// Families of language models and text encoders: the beginning of a class or
// model_type, in lower case without '_' and '-'.
constexpr Words kFamilies = R"(
    apertus arcee arctic baichuan bailing bamba bart bert bigbird blenderbot
    bloom camembert chatglm cliptext codegen cohere convbert cwm dbrx deberta
    deepseek distilbert dots1 dreammodel electra ernie esm eurobert exaone
    falcon flaubert flexolmo gemma glm gpt granite helium hunyuanv1 internlm
    jais jamba jinabert kimik kimilinear lfm2 llada llama longcat longformer
    longt5 m2m100 mamba marian mbart megatronbert minicpm minimax ministral
    mistral mixtral mobilebert modernbert mpnet mpt mt5 nemotron neobert
    newmodel nomicbert olmo optmodel orion pegasus persimmon phi plamo qwen
    recurrentgemma refinedweb rembert roberta roformer rwkv seedoss smollm
    squeezebert stablelm starcoder step3 t5 umt5 whisper xglm xlm xlnet xverse
    zamba)";
// Endings of the names of diffusers' classes, and Wan's own class.
constexpr std::string_view kDiffusers[] = {
    "Transformer2DModel", "Transformer3DModel", "UNet2DConditionModel",
    "DiT2DModel",         "DiTModel",           "WanModel"};

// The member as text, or the first text of a list.
std::string NameIn(const Json& config, const char* key) {
  const Json* found = Member(&config, key);
  const bool list = found != nullptr && found->is_array() && !found->empty();
  return TextOf(list ? &found->front() : found).value_or("");
}

bool IsOfFamily(std::string_view name) {
  std::string small = absl::AsciiStrToLower(std::string(name));
  std::erase_if(small, [](char c) { return c == '_' || c == '-'; });
  return !HoldsOneOf(small, Words("vision audio speech image")) &&
         StartsWithOneOf(small, kFamilies);
}

ModelClass ClassOfOne(const Json& config) {
  using K = ModelKind;
  if (const std::string name = NameIn(config, "_class_name"); !name.empty()) {
    return {EndsWithOneOf(name, kDiffusers) ? K::kDiffusion : K::kOther, name};
  }
  if (const std::string name = NameIn(config, "architectures"); !name.empty()) {
    // The text after "For" is the class's task. A class without it has no head.
    const bool bare = name.find("For") == std::string::npos;
    const bool known =
        EndsWithOneOf(name, kWriters) ||
        (IsOfFamily(name) && (bare || EndsWithOneOf(name, kReaders)));
    const bool by_end = known && !IsOfFamily(name) &&
                        name.ends_with("ForConditionalGeneration");
    return {known ? K::kLanguage : K::kOther, name, by_end};
  }
  for (const char* key : {"model_type", "type"}) {
    if (const std::string name = NameIn(config, key); !name.empty()) {
      return {IsOfFamily(name) ? K::kLanguage : K::kOther, name};
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> HeadNames(const Json& config) {
  if (!config.is_object()) return {"lm_head"};
  std::vector<const Json*> places = {&config};
  for (const auto& [key, value] : config.items()) {
    const bool language =
        HoldsOneOf(key, kLanguage) || key.starts_with("decoder");
    if (value.is_object() && language) places.push_back(&value);
  }
  std::vector<std::string> names;
  for (const Json* place : places) {
    const std::string type = TypeOf(*place);
    for (const auto& [head, types] : kHeadNames) {
      if (!Has(types, type)) continue;
      names.emplace_back(head);
      if (place == &config) return names;
    }
  }
  // The whole model may have the head, under this name.
  names.emplace_back("lm_head");
  return names;
}

std::vector<const Json*> LanguageChain(const Json& config) {
  std::vector<const Json*> chain = {&config};
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const auto& [key, value] : chain.back()->items()) {
      if (!value.is_object() || !HoldsOneOf(key, kLanguage)) continue;
      chain.push_back(&value);
      deeper = true;
      break;
    }
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

ConfigFacts FactsOf(const Json& config) {
  ConfigFacts facts;
  if (!config.is_object()) return facts;
  const auto chain = LanguageChain(config);
  facts.hidden_size = NumberOf(chain, "hidden_size n_embd d_model dim");
  const int64_t heads = NumberOf(chain, "num_attention_heads n_head");
  int64_t keys = NumberOf(chain, "num_key_value_heads num_kv_heads");
  if (IsTrue(chain, "multi_query") &&
      !IsTrue(chain, "new_decoder_architecture"))
    keys = 1;
  int64_t size = NumberOf(chain, "head_dim");
  if (size == 0 && heads > 0) size = facts.hidden_size / heads;
  facts.key_rows = size * (keys > 0 ? keys : heads);
  const bool two =
      IsTrue(chain, "is_encoder_decoder") ||
      NumberOf(chain, "decoder_layers num_decoder_layers encoder_layers") > 0;
  if (!two) {
    facts.layers =
        NumberOf(chain, "num_hidden_layers n_layer num_layers n_layers");
  }
  CollectTowers(config, &facts);
  facts.draft_heads =
      (config.contains("medusa_num_heads") && facts.layers == 0) ||
      Has(kDraftTypes, TypeOf(config));
  facts.tied = IsTrue(chain, "tie_word_embeddings");
  return facts;
}

std::vector<SaidQuantization> QuantizationsIn(const Json& config) {
  std::vector<SaidQuantization> out;
  if (config.is_object()) Collect(config, "", &out);
  return out;
}

void EraseQuantizations(Json* config) {
  for (auto i = config->begin(); i != config->end();) {
    if (i.key() == "quantization_config" || IsQuantization(i.key(), *i)) {
      i = config->erase(i);
      continue;
    }
    if (i->is_object()) EraseQuantizations(&*i);
    ++i;
  }
}

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
               IsOfFamily(NameIn(*inner, "model_type"));
      });
  if (holds) outer.kind = ModelKind::kHolder;
  return outer;
}

}  // namespace quantd::checkpoint
