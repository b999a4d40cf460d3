// A list of modules in a model's configuration, as engines read it.
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
                      // modules whose names end so
  };

  ModuleList() = default;
  // `list`: nullptr or no list of texts is an empty one.
  ModuleList(const Json* list, Rule rule);

  bool empty() const { return entries_.empty(); }
  // As every engine reads it.
  bool Names(std::string_view module) const;
  // A name of the list that is somewhere in the module's, "": none.
  // transformers before 5 takes that for enough, where names are prefixes.
  std::string_view PartOf(std::string_view module) const;
  // As some engine might: parts of names, other names of the same layer, and
  // expressions that only Python's library understands.
  bool MayName(std::string_view module) const;
  // What is no expression for any engine, with the reason.
  const std::vector<std::string>& broken() const { return broken_; }
  // Sorted, each once.
  std::vector<std::string> texts() const;

 private:
  struct Entry {
    std::string text;
    std::optional<Pattern> pattern;  // none: a name
    bool foreign = false;            // an expression that is none here
  };
  Rule rule_ = Rule::kPrefixes;
  std::vector<Entry> entries_;
  std::vector<std::string> broken_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_MODULE_LIST_H_
