#include "client/quantctl/bench/rounds.h"

#include <algorithm>

namespace quantd::quantctl {

absl::Status RunRounds(const Load& load, int rounds,
                       std::vector<Contender>* contenders,
                       const std::atomic<int>& stop) {
  const uint64_t count =
      std::min<uint64_t>(static_cast<uint64_t>(rounds), load.calls);
  Load one = load;
  one.seconds /= static_cast<double>(count);
  one.calls /= count;
  const size_t size = contenders->size();
  for (uint64_t round = 0; round < count; ++round) {
    for (size_t i = 0; i < size; ++i) {
      Contender& c = (*contenders)[(i + round) % size];
      const Outcome outcome = RunLoad(one, c.call, stop);
      c.outcome.Merge(outcome);
      // An interrupted one may have lasted for no time at all.
      if (stop != 0 && size > 1) return {};
      if (&c != &contenders->front() && !outcome.error.ok()) {
        return outcome.error;
      }
      c.calls_per_s.push_back(outcome.seconds > 0
                                  ? static_cast<double>(outcome.good) /
                                        outcome.seconds
                                  : 0);
      // Nobody is there.
      if (absl::IsUnavailable(outcome.error)) return {};
    }
  }
  return {};
}

}  // namespace quantd::quantctl
