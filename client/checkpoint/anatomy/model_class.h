// What kind of model a configuration names: only of known kinds is it known
// which layers engines take quantized.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_

#include <cstdint>
#include <string>

#include "client/checkpoint/python_json.h"

namespace quantd::checkpoint {

enum class ModelKind : uint8_t {
  kUnnamed,   // it names no class: names of tensors tell
  kOther,     // it names one that is not known here
  kLanguage,  // of text, with or without towers
  kHolder,    // another model, with a configuration of a language model in it
  kDiffusion,
};

struct ModelClass {
  ModelKind kind = ModelKind::kUnnamed;
  std::string name;  // "LlamaForCausalLM", or the model_type
  // Known by the end of the name alone, which models of sound have, too.
  bool by_end = false;
};
ModelClass ClassIn(const Json& config);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_
