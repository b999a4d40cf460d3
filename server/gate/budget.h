// Counts the bytes that are used of each account, in all and by identity.
//
// Not thread-safe: the gate's lock guards it.
#ifndef QUANTD_SERVER_GATE_BUDGET_H_
#define QUANTD_SERVER_GATE_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
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
    if (bytes == 0 || identity.empty()) return;
    Holder& holder = held_[identity];
    holder.bytes.resize(limits_.size());
    holder.bytes[account] += bytes;
    holder.idle = false;
  }
  void Give(Account account, const std::string& identity, size_t bytes) {
    used_[account] -= bytes;
    const auto holder = held_.find(identity);
    if (holder != held_.end()) holder->second.bytes[account] -= bytes;
  }
  // Forgets identities that hold nothing and held nothing at the last call.
  void ForgetIdle() {
    absl::erase_if(held_, [](auto& holder) {
      const bool idle = Sum(holder.second.bytes) == 0;
      return std::exchange(holder.second.idle, idle) && idle;
    });
  }

  size_t used(Account account) const { return used_[account]; }
  size_t limit(Account account) const { return limits_[account]; }
  size_t held_by(const std::string& identity) const {
    const auto holder = held_.find(identity);
    return holder == held_.end() ? 0 : Sum(holder->second.bytes);
  }
  size_t held_by(const std::string& identity, Account account) const {
    const auto holder = held_.find(identity);
    return holder == held_.end() ? 0 : holder->second.bytes[account];
  }
  // Number of identities that hold bytes, or did so a short time ago.
  size_t holders() const { return held_.size(); }

 private:
  struct Holder {
    std::vector<size_t> bytes;  // by account
    bool idle = false;          // held nothing when it was last looked at
  };
  static size_t Sum(const std::vector<size_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  }

  const std::vector<size_t> limits_;
  std::vector<size_t> used_;
  absl::flat_hash_map<std::string, Holder> held_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_BUDGET_H_
