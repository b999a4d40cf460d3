// Calls that wait for bytes of an account, and the order in which they are
// served.
//
// The order is priority, then what the identity holds (fewest bytes first),
// then arrival. One that has waited longer than its patience goes before all
// others, so that nobody starves. The first that does not fit keeps the bytes
// that it lacks for itself: only smaller ones pass it, with a quarter of its
// own bytes in all.
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
    std::string identity;  // empty: shared with no other
    Priority priority = Priority::kNormal;
    absl::Time since;
    absl::Time until = absl::InfiniteFuture();
    size_t passed = 0;  // bytes of those that were served before it
  };
  using List = std::vector<std::unique_ptr<Waiting>>;
  // The accounts in which bytes are lacking: a bit for each.
  using Lanes = uint64_t;
  // Bytes that an identity holds now.
  using Held = absl::FunctionRef<size_t(const std::string& identity)>;
  // Takes what the waiter needs, but nothing of the `kept` lanes, and returns
  // 0; or the lanes in which it does not fit.
  using Take = absl::FunctionRef<Lanes(Waiting& waiting, Lanes kept)>;

  void Push(std::unique_ptr<Waiting> waiting) {
    waiting_.push_back(std::move(waiting));
  }
  // Makes room for one that would wait, within so many waiters and so many
  // bytes together; one may always wait. Returns those that leave for it: of
  // the lowest priority, the latest of the identity with most bytes waiting.
  // nullopt: that would be the newcomer.
  std::optional<List> MakeRoom(const Waiting& newcomer, size_t most,
                               size_t most_bytes, absl::Time now);
  // Removes those that were served, in order.
  List Serve(absl::Time now, Held held, Take take);
  List RemoveIf(absl::FunctionRef<bool(const Waiting&)> condition);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // Bytes of those that go before one of this priority.
  size_t BytesBefore(Priority priority) const;
  // When the longest wait began; InfiniteFuture: nobody waits.
  absl::Time oldest() const;
  // When the order changes, or somebody's time is over.
  absl::Time NextChange(absl::Time now) const;

 private:
  using Waiters = std::list<std::unique_ptr<Waiting>>;
  // In order of arrival.
  Waiters waiting_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_WAIT_LIST_H_
