// What lint finds.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_FINDING_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_FINDING_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quantd::checkpoint {

struct Finding {
  std::string_view rule;
  std::string where;  // a module or a file; the first of `count`
  std::string text;
  size_t count = 1;
};

// One for a rule that many weights break.
class Findings {
 public:
  void Add(std::string_view rule, const std::string& where,
           const std::string& text) {
    for (Finding& f : findings_) {
      if (f.rule != rule) continue;
      ++f.count;
      return;
    }
    findings_.push_back({rule, where, text});
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_FINDING_H_
