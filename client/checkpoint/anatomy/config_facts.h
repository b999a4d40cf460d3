// Facts about a whole model from its config.json, nested configurations
// included, and its kind. For an unknown kind we do not know which layers
// engines can load in quantized form.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/checkpoint/python_json.h"

namespace quantd::checkpoint {

// Facts about the model, or about the language model if the configuration nests
// several models.
struct ConfigFacts {
  // 0: unknown, or the model has an encoder and a decoder.
  int64_t layers = 0;
  int64_t hidden_size = 0;  // 0: unknown
  int64_t key_rows = 0;     // rows of k_proj or v_proj; 0: unknown
  bool towers = false;      // has nested towers for images or sound
  // First part of the names of their modules: "codec" from "codec_config".
  std::vector<std::string> nested_towers;
  bool draft_heads = false;  // the model has nothing but draft heads
  bool tied = false;         // tie_word_embeddings: the head is the embeddings
};
ConfigFacts FactsOf(const Json& config);

// The names that transformers gives the output head of the model or of its
// language model. Tied heads are in no file, but are modules in engines.
std::vector<std::string> HeadNames(const Json& config);

// The nested configurations that describe the language model, innermost first.
// The last one is `config` itself.
std::vector<const Json*> LanguageChain(const Json& config);

// A description of the quantization, and its path of keys.
struct SaidQuantization {
  std::string place;  // "text_config.quantization_config"
  const Json* json = nullptr;
};
// All descriptions in `config`, outermost first. The pointers point into
// `config`. Null and {} do not count as descriptions.
std::vector<SaidQuantization> QuantizationsIn(const Json& config);
void EraseQuantizations(Json* config);

enum class ModelKind : uint8_t {
  kUnnamed,   // no class is named: tensor names decide
  kOther,     // an unknown class
  kLanguage,  // a language model, with or without towers
  kHolder,    // an unknown class whose configuration nests a language model
  kDiffusion,
};

struct ModelClass {
  ModelKind kind = ModelKind::kUnnamed;
  std::string name;  // "LlamaForCausalLM", or the model_type
  // Known only by the ending of the name, which some audio models share.
  bool by_end = false;
};
ModelClass ClassIn(const Json& config);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_
