// A list of modules in a model's configuration, matched as engines match it.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_MODULE_LIST_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_MODULE_LIST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {

class ModuleList {
 public:
  enum class Rule {
    kExactOrRegular,  // compressed-tensors: names, or "re:" and an expression
    kGlobs,           // ModelOpt: * matches any text
    kPrefixes,        // transformers' FP8 and MXFP4: all below the module, and
                      // modules whose names have that ending
  };

  ModuleList() = default;
  // A `list` that is nullptr or not a list of strings counts as empty.
  ModuleList(const Json* list, Rule rule);

  bool empty() const { return entries_.empty(); }
  // Whether all engines find the module in the list.
  bool Names(std::string_view module) const;
  // Whether some engine finds its own layer of that name in the list: SGLang
  // also by an ending of the name or by one of its parts, vLLM by any part of
  // the text in lists of globs.
  bool HoldsLayer(std::string_view name) const;
  // A listed name that occurs anywhere in the module's name, or "". In lists of
  // prefixes, transformers before version 5 counts that as a match.
  std::string_view PartOf(std::string_view module) const;
  // Whether some engine may find the module: by part of its name, by another
  // prefix of the same layer, or by an expression that RE2 does not support.
  bool MayName(std::string_view module) const;
  // Expressions that are invalid in every engine, with the reason.
  const std::vector<std::string>& broken() const { return broken_; }
  // The entries, sorted and without duplicates.
  std::vector<std::string> texts() const;

 private:
  struct Entry {
    std::string text;
    std::optional<Pattern> pattern;  // nullopt for a plain name
    bool foreign = false;  // a regular expression that RE2 does not support
  };
  Rule rule_ = Rule::kPrefixes;
  std::vector<Entry> entries_;
  std::vector<std::string> broken_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_MODULE_LIST_H_
