// Lists of modules that engines read in the configuration of a converted model:
// those that stay as they are, and those of each format.
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

// What files say of a quantized module.
struct ModuleKind {
  WeightFormat format = WeightFormat::kBf16;
  bool measured = false;  // its activations have a scale

  auto operator<=>(const ModuleKind&) const = default;
};

std::map<ModuleKind, std::vector<std::string>> ModulesOf(
    const ConversionPlan& plan);

// Expressions for linear modules that stay as they are, and for embeddings if
// the engine takes these for such.
std::vector<std::string> IgnoredExpressions(const Model& model,
                                            const ConversionPlan& plan,
                                            bool embeddings, NameStyle style);

// Names of the same modules for engines that compare names: each that one of
// them may have.
std::vector<std::string> IgnoredNames(const Model& model,
                                      const ConversionPlan& plan,
                                      bool embeddings);

// What each kind's group of compressed-tensors aims at: the most frequent
// one at all linear layers, others at expressions; output heads by name, for
// they are no linear layers to vLLM.
std::map<ModuleKind, std::vector<std::string>> TargetsOf(
    const Model& model, const ConversionPlan& plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_LISTS_H_
