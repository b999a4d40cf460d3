#include "server/gate/budget.h"

#include <utility>

namespace quantd {

Budget::Budget(std::vector<size_t> limits)
    : limits_(std::move(limits)), used_(limits_.size(), 0) {}

void Budget::Take(Account account, const std::string& identity, size_t bytes) {
  if (bytes == 0) return;
  used_[account] += bytes;
  if (!identity.empty()) held_[identity] += bytes;
}

void Budget::Give(Account account, const std::string& identity, size_t bytes) {
  used_[account] -= bytes;
  const auto holder = held_.find(identity);
  if (holder == held_.end()) return;
  holder->second -= bytes;
  if (holder->second == 0) held_.erase(holder);
}

size_t Budget::held_by(const std::string& identity) const {
  const auto holder = held_.find(identity);
  return holder == held_.end() ? 0 : holder->second;
}

}  // namespace quantd
