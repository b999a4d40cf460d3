// Lists of modules that engines read in the configuration of a converted model:
// those that are not quantized, and those of each format.
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

// The quantized modules by kind.
std::map<ModuleKind, std::vector<std::string>> ModulesOf(
    const ConversionPlan& plan);

// Expressions for linear modules that are not quantized, and for embeddings if
// the engine treats them as linear.
std::vector<std::string> IgnoredExpressions(const Model& model,
                                            const ConversionPlan& plan,
                                            bool embeddings, NameStyle style);

// Names of the same modules for engines that compare names, in every form that
// an engine may use.
std::vector<std::string> IgnoredNames(const Model& model,
                                      const ConversionPlan& plan,
                                      bool embeddings);

// Targets of each kind's group in compressed-tensors: all linear layers for the
// most frequent kind, expressions for others. Output heads are listed by name,
// since vLLM does not count them as linear layers.
std::map<ModuleKind, std::vector<std::string>> TargetsOf(
    const Model& model, const ConversionPlan& plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_LISTS_H_
