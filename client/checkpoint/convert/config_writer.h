// Writes the files that engines read beside the tensors: config.json with its
// quantization_config, the index, and ModelOpt's hf_quant_config.json.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/convert/module_names.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/files/words.h"

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

// A format as the configurations of compressed-tensors and ModelOpt describe
// it.
struct SchemeRow {
  WeightFormat format;
  std::string_view name;  // name of the group in compressed-tensors
  // The group's name if inputs are not quantized.
  std::string_view weights_only;
  int bits = 0;
  std::string_view strategy;
  int group_size = 0;  // 0: none
  std::string_view scale_type;
  // Values of "format" in compressed-tensors; convert writes the first.
  Words file_formats;
  // Values of quant_algo in ModelOpt; convert writes the first, except for
  // NVFP4 weights whose inputs are not quantized.
  Words algorithms;
};
// Returns nullptr if neither library has the format.
const SchemeRow* FindScheme(WeightFormat format);

// The format and inputs of a quantized module, as configurations describe them.
struct ModuleKind {
  WeightFormat format = WeightFormat::kBf16;
  bool measured = false;  // it has an input scale

  auto operator<=>(const ModuleKind&) const = default;
};

// The quantized modules by kind.
std::map<ModuleKind, std::vector<std::string>> ModulesOf(
    const ConversionPlan& plan);

// Lists of modules in the configuration of a converted model. These are
// expressions that match the linear modules that are not quantized.
// `embeddings` adds embeddings, for engines that treat them as linear modules.
std::vector<std::string> IgnoredExpressions(const Model& model,
                                            const ConversionPlan& plan,
                                            bool embeddings, NameStyle style);

// Names of the same modules, in every form that engines use, for lists without
// expressions.
std::vector<std::string> IgnoredNames(const Model& model,
                                      const ConversionPlan& plan,
                                      bool embeddings);

// The targets of each kind's group in compressed-tensors: the class of linear
// layers for the most frequent kind, expressions for the others. Output heads
// are always named, since vLLM does not count them as linear layers.
std::map<ModuleKind, std::vector<std::string>> TargetsOf(
    const Model& model, const ConversionPlan& plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONFIG_WRITER_H_
