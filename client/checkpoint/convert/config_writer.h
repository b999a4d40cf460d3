// Writes the files that engines read beside the tensors: config.json's
// quantization_config and ModelOpt's own file.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

inline constexpr std::string_view kModelOptConfig = "hf_quant_config.json";

struct TextFile {
  std::string name;
  std::string text;
};

// The files to write: config.json with the dialect's description, the index of
// the new shards if there was one, hf_quant_config.json. None if the model is a
// single file.
std::vector<TextFile> ConfigFiles(const Model& model,
                                  const ConversionPlan& plan);

// In words for a person: "weights only", "activations at run time".
std::string ActivationsOf(const ConversionPlan& plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_
