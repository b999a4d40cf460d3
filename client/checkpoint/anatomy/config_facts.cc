#include "client/checkpoint/anatomy/config_facts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kLanguage[] = {"text", "llm", "vlm", "language",
                                          "thinker"};
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

// Names of output heads other than lm_head, each with its model types: all
// _tied_weights_keys of transformers 5.
constexpr std::pair<std::string_view, std::string_view> kHeadNames[] = {
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

template <typename Words>
bool HasOneOf(std::string_view text, const Words& words) {
  return std::any_of(std::begin(words), std::end(words), [&](auto word) {
    return text.find(word) != std::string_view::npos;
  });
}

int64_t NumberOf(const std::vector<const Json*>& chain,
                 std::initializer_list<const char*> keys) {
  for (const Json* place : chain) {
    for (const char* key : keys) {
      const auto n = place->find(key);
      if (n != place->end() && n->is_number_integer()) return n->get<int64_t>();
    }
  }
  return 0;
}

bool IsTrue(const std::vector<const Json*>& chain, const char* key) {
  for (const Json* place : chain) {
    const auto found = place->find(key);
    if (found != place->end() && found->is_boolean()) return found->get<bool>();
  }
  return false;
}

bool IsTower(const std::string& key, const Json& config) {
  if (HasOneOf(key, kTowers)) return true;
  const auto type = config.find("model_type");
  if (type != config.end() && type->is_string()) {
    const auto& name = type->get_ref<const std::string&>();
    if (HasOneOf(name, kTowers) || HasOneOf(name, kTowerTypes)) return true;
  }
  return std::any_of(std::begin(kTowerKeys), std::end(kTowerKeys),
                     [&](auto word) { return config.contains(word); });
}

void CollectTowers(const Json& config, ConfigFacts* facts) {
  for (const auto& [key, value] : config.items()) {
    if (!value.is_object()) continue;
    if (HasOneOf(key, kLanguage)) {
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

}  // namespace

std::vector<std::string> HeadNames(const Json& config) {
  if (!config.is_object()) return {"lm_head"};
  std::vector<const Json*> places = {&config};
  for (const auto& [key, value] : config.items()) {
    const bool language =
        HasOneOf(key, kLanguage) || key.starts_with("decoder");
    if (value.is_object() && language) places.push_back(&value);
  }
  std::vector<std::string> names;
  for (const Json* place : places) {
    const auto type = place->find("model_type");
    if (type == place->end() || !type->is_string()) continue;
    for (const auto& [head, types] : kHeadNames) {
      if (!Has(Split(types, ' '), type->get<std::string>())) continue;
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
      if (!value.is_object() || !HasOneOf(key, kLanguage)) continue;
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
  facts.hidden_size =
      NumberOf(chain, {"hidden_size", "n_embd", "d_model", "dim"});
  const int64_t heads = NumberOf(chain, {"num_attention_heads", "n_head"});
  int64_t keys = NumberOf(chain, {"num_key_value_heads", "num_kv_heads"});
  if (IsTrue(chain, "multi_query") &&
      !IsTrue(chain, "new_decoder_architecture"))
    keys = 1;
  int64_t size = NumberOf(chain, {"head_dim"});
  if (size == 0 && heads > 0) size = facts.hidden_size / heads;
  facts.key_rows = size * (keys > 0 ? keys : heads);
  const bool two = IsTrue(chain, "is_encoder_decoder") ||
                   NumberOf(chain, {"decoder_layers", "num_decoder_layers",
                                    "encoder_layers"}) > 0;
  if (!two) {
    facts.layers = NumberOf(
        chain, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  }
  CollectTowers(config, &facts);
  const auto type = config.find("model_type");
  facts.draft_heads =
      (config.contains("medusa_num_heads") && facts.layers == 0) ||
      (type != config.end() &&
       std::any_of(std::begin(kDraftTypes), std::end(kDraftTypes),
                   [&](std::string_view draft) { return *type == draft; }));
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

}  // namespace quantd::checkpoint
