// What a configuration says of a model as a whole, however deep it says it.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/checkpoint/python_json.h"

namespace quantd::checkpoint {

// Numbers of the model; where the configuration nests several models, those of
// the language model.
struct ConfigFacts {
  // 0: unknown, or of an encoder and a decoder, whose numbers differ.
  int64_t layers = 0;
  int64_t hidden_size = 0;  // 0: unknown
  int64_t key_rows = 0;     // of k, and of v, in a layer; 0: unknown
  bool towers = false;      // of images or sound are nested
  // What the names of their modules begin with: "codec" of "codec_config".
  std::vector<std::string> nested_towers;
  bool draft_heads = false;  // it is heads for further tokens, and no more
  bool tied = false;  // the head is the matrix of the embeddings, it says
};
ConfigFacts FactsOf(const Json& config);

// The configurations of the language model, the innermost first; the last is
// the configuration itself.
std::vector<const Json*> LanguageChain(const Json& config);

// A description of how weights are quantized, and where it is.
struct SaidQuantization {
  std::string place;  // "text_config.quantization_config"
  const Json* json = nullptr;
};
// The outermost comes first; null is nothing. They point into the config.
std::vector<SaidQuantization> QuantizationsIn(const Json& config);
void EraseQuantizations(Json* config);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_CONFIG_FACTS_H_
