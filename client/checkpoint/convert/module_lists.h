// Makes the lists of modules in the configuration of a converted model: the
// modules that are not quantized, and the modules of each format.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_LISTS_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_LISTS_H_

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "client/checkpoint/convert/module_names.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// The format and inputs of a quantized module, as configurations describe them.
struct ModuleKind {
  WeightFormat format = WeightFormat::kBf16;
  bool measured = false;  // it has an input scale

  auto operator<=>(const ModuleKind&) const = default;
};

// The quantized modules by kind.
std::map<ModuleKind, std::vector<std::string>> ModulesOf(
    const ConversionPlan& plan);

// Expressions that match the linear modules that are not quantized.
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

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_LISTS_H_
