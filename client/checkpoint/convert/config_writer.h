// Writes the files that engines read beside the tensors: config.json with its
// quantization_config, the index, and ModelOpt's hf_quant_config.json.
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

// The files to write, in this order: the index if the model has one,
// hf_quant_config.json for ModelOpt, config.json with the dialect's
// description. Empty if the model is a single file.
std::vector<TextFile> ConfigFiles(const Model& model,
                                  const ConversionPlan& plan);

// How activations are quantized, for a message: "quantized at run time".
std::string ActivationsOf(const ConversionPlan& plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_
