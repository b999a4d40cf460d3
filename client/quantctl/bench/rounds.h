// Several ways to do the same, measured in turn.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_ROUNDS_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_ROUNDS_H_

#include <atomic>
#include <functional>
#include <vector>

#include "client/quantctl/bench/load.h"

namespace quantd::quantctl {

struct Contender {
  std::function<absl::Status()> call;
  Outcome outcome = {};                  // of all rounds
  std::vector<double> calls_per_s = {};  // one each round
};

// Gives each contender the load, its time and calls divided among rounds that
// go through all of them, so that a slow minute of the machine is one of all;
// each goes first as often as the others. Fewer rounds than `rounds` where
// there are fewer calls. A call of any but the first contender that fails ends
// it, with that error.
absl::Status RunRounds(const Load& load, int rounds,
                       std::vector<Contender>* contenders,
                       const std::atomic<int>& stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_ROUNDS_H_
