// How a configuration's list names modules, so that engines find them under
// whatever prefix they know them by: a file's "language_model.model.layers.0"
// is transformers' "model.language_model.layers.0", and its q_proj, k_proj and
// v_proj are vLLM's qkv_proj.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

namespace quantd::checkpoint {

enum class NameStyle {
  kRegular,  // compressed-tensors: "re:.*lm_head$", matched from the start
  kGlobs,    // ModelOpt: "*lm_head", matched as a whole
};

// The end of a name that stands for everything below a module.
inline constexpr std::string_view kAllBelow = ".*";

// Expressions that match each of `names`, and what engines fuse them into, and
// none of `others`; as short as that allows. An expression that would match
// another becomes longer, in the end the name itself.
std::vector<std::string> ModuleExpressions(std::vector<std::string> names,
                                           std::vector<std::string> others,
                                           NameStyle style);

// The names that a module of a model of several towers has in the file, in
// transformers and in vLLM, for lists that hold no expressions.
std::vector<std::string> NameForms(const std::string& name);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_MODULE_NAMES_H_
