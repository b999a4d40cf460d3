// Calls that wait for bytes of an account, and the order in which they are
// served.
//
// The order is priority, then bytes held by the identity (fewest first), then
// arrival. A call that has waited longer than its patience goes before all
// others, so that nobody starves. The first call that does not fit reserves the
// bytes that it lacks: only smaller calls may pass it, with a quarter of its
// bytes in all.
//
// Not thread-safe: the gate's lock guards it.
#ifndef QUANTD_SERVER_GATE_WAIT_LIST_H_
#define QUANTD_SERVER_GATE_WAIT_LIST_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/gate/caller.h"

namespace quantd {

class WaitList {
 public:
  struct Waiting {
    virtual ~Waiting() = default;
    size_t bytes = 0;
    std::string identity;  // empty: a share of its own
    Priority priority = Priority::kNormal;
    absl::Time since;
    absl::Time until = absl::InfiniteFuture();
    // Time from which its identity's share no longer holds it back.
    absl::Time exempt = absl::InfiniteFuture();
    size_t passed = 0;  // bytes of smaller calls that were served before it
  };
  using List = std::vector<std::unique_ptr<Waiting>>;
  // Set of accounts in which bytes are lacking, one bit each.
  using Lanes = uint64_t;
  // Returns the bytes that an identity holds now.
  using Held = absl::FunctionRef<size_t(const std::string& identity)>;
  // Takes what the waiter needs without using the `kept` lanes, and returns 0.
  // If it does not fit, returns the lanes in which it does not.
  using Take = absl::FunctionRef<Lanes(Waiting& waiting, Lanes kept)>;

  void Push(std::unique_ptr<Waiting> waiting) {
    waiting_.push_back(std::move(waiting));
  }
  // Makes room for a newcomer so that at most `most` calls with `most_bytes` in
  // all wait; one may always wait. Returns the waiters that leave for it: the
  // lowest priority first, then the identity with the most bytes waiting, then
  // the latest; those whose patience is over come last. Returns nullopt if the
  // newcomer itself is the one to leave.
  std::optional<List> MakeRoom(const Waiting& newcomer, size_t most,
                               size_t most_bytes, absl::Time now);
  // Calls `take` on the waiters in order. Removes and returns those that were
  // served.
  List Serve(absl::Time now, Held held, Take take);
  List RemoveIf(absl::FunctionRef<bool(const Waiting&)> condition);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // Bytes of the waiters that go before a newcomer of this priority.
  size_t BytesBefore(Priority priority) const;
  // When the longest wait began; InfiniteFuture if nobody waits.
  absl::Time oldest() const;
  // When the order next changes, or a waiter's time is over.
  absl::Time NextChange(absl::Time now) const;

 private:
  using Waiters = std::list<std::unique_ptr<Waiting>>;
  // In order of arrival.
  Waiters waiting_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_WAIT_LIST_H_
