// Determines the kind of a model from its configuration. For an unknown kind we
// do not know which layers engines can load in quantized form.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_

#include <cstdint>
#include <string>

#include "client/checkpoint/python_json.h"

namespace quantd::checkpoint {

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

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_MODEL_CLASS_H_
