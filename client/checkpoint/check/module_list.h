// A list of modules in a model's configuration, as engines interpret it.
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
    kExactOrRegular,  // compressed-tensors: names, and "re:" from the start
    kGlobs,           // ModelOpt: * stands for anything
    kPrefixes,        // transformers' FP8 and MXFP4: all below the module, and
                      // modules whose names have that ending
  };

  ModuleList() = default;
  // `list` that is nullptr or not a list of texts counts as empty.
  ModuleList(const Json* list, Rule rule);

  bool empty() const { return entries_.empty(); }
  // Whether every engine finds the module in the list.
  bool Names(std::string_view module) const;
  // A listed name that occurs anywhere in the module's name; "": none. For
  // lists of prefixes, transformers before 5 accepts that as a match.
  std::string_view PartOf(std::string_view module) const;
  // Whether some engine might find the module: by part of a name, another name
  // of the same layer, or an expression that only Python's library supports.
  bool MayName(std::string_view module) const;
  // Expressions that are invalid for every engine, with the reason.
  const std::vector<std::string>& broken() const { return broken_; }
  // Sorted, without duplicates.
  std::vector<std::string> texts() const;

 private:
  struct Entry {
    std::string text;
    std::optional<Pattern> pattern;  // nullopt: a name
    bool foreign = false;  // a regular expression that we do not support
  };
  Rule rule_ = Rule::kPrefixes;
  std::vector<Entry> entries_;
  std::vector<std::string> broken_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_MODULE_LIST_H_
