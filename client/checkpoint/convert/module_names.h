// Writes module names for a configuration so that engines find the modules
// under any prefix: "language_model.model.layers.0" in a file is
// "model.language_model.layers.0" in transformers, and its q_proj, k_proj and
// v_proj are qkv_proj in vLLM.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace quantd::checkpoint {

enum class NameStyle {
  kRegular,  // compressed-tensors: "re:.*lm_head$", matches from the start
  kGlobs,    // ModelOpt: "*lm_head", matches the whole name
};

// Ending of a name in a list that stands for everything below a module.
inline constexpr std::string_view kAllBelow = ".*";

// The shortest expressions that match each of `names` and the fused modules
// that contain them, but none of `others`. If every expression for a name would
// match another name, the name itself is used.
std::vector<std::string> ModuleExpressions(std::vector<std::string> names,
                                           std::vector<std::string> others,
                                           NameStyle style);

// The names of modules into which vLLM or SGLang pack this module in some class
// of model: qkv_proj and others for q_proj. `has` tells which siblings exist.
// Empty for parts of an expert.
std::vector<std::string> FusedNamesOf(
    std::string_view module, absl::FunctionRef<bool(const std::string&)> has);

// The names of a module of a model with towers in the file, in transformers and
// in vLLM, for lists without expressions.
std::vector<std::string> NameForms(const std::string& name);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_
