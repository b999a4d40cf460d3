// Counts bytes by account, and the total that each identity holds.
//
// Not thread-safe: the gate's lock guards it.
#ifndef QUANTD_SERVER_GATE_BUDGET_H_
#define QUANTD_SERVER_GATE_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace quantd {

class Budget {
 public:
  // Index into the list of limits.
  using Account = size_t;

  explicit Budget(std::vector<size_t> limits)
      : limits_(std::move(limits)), used_(limits_.size(), 0) {}

  bool Fits(Account account, size_t bytes) const {
    return used_[account] <= limits_[account] && bytes <= Room(account);
  }
  // Bytes left; 0 if more is held than the limit.
  size_t Room(Account account) const {
    return limits_[account] - std::min(limits_[account], used_[account]);
  }
  // Takes bytes even if they do not fit: for small methods, and for replies
  // that are larger than their requests. Bytes of the empty identity are not
  // attributed to anyone.
  void Take(Account account, const std::string& identity, size_t bytes) {
    used_[account] += bytes;
    if (bytes != 0 && !identity.empty()) held_[identity] += bytes;
  }
  void Give(Account account, const std::string& identity, size_t bytes) {
    used_[account] -= bytes;
    const auto holder = held_.find(identity);
    if (holder == held_.end()) return;
    holder->second -= bytes;
    if (holder->second == 0) held_.erase(holder);
  }

  size_t used(Account account) const { return used_[account]; }
  size_t limit(Account account) const { return limits_[account]; }
  size_t held_by(const std::string& identity) const {
    const auto holder = held_.find(identity);
    return holder == held_.end() ? 0 : holder->second;
  }
  // Number of identities that hold bytes.
  size_t holders() const { return held_.size(); }

 private:
  const std::vector<size_t> limits_;
  std::vector<size_t> used_;
  absl::flat_hash_map<std::string, size_t> held_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_BUDGET_H_
