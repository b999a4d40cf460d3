// Threads that process the bands of a call, and their turns to send.
#ifndef QUANTD_CLIENT_BANDS_BAND_THREADS_H_
#define QUANTD_CLIENT_BANDS_BAND_THREADS_H_

#include <functional>
#include <semaphore>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/bands/band_plan.h"
#include "client/call/call_control.h"

namespace quantd::client {

// A band holds one turn until it is sent completely or its call ends. Then the
// next waiting band gets the turn.
using Turns = std::counting_semaphore<>;

// Owns a turn that was taken, and gives it back exactly once.
class Turn {
 public:
  explicit Turn(Turns* turns) : turns_(turns) {}
  ~Turn() { Give(); }
  Turn(const Turn&) = delete;
  void Give() {
    if (turns_ != nullptr) std::exchange(turns_, nullptr)->release();
  }

 private:
  Turns* turns_;
};

using Work = std::function<absl::Status(const Band&, CallControl&)>;

// Calls `work` for all bands, `at_once` at a time. The first error cancels the
// others and is returned. ForEachBand takes a turn before each `work`, which
// gives it back. With `meet`, the bands wait for each other: unless all can run
// at once, none runs.
absl::Status ForEachBand(CallControl& whole, const std::vector<Band>& bands,
                         int at_once, Turns& turns, const Work& work,
                         bool meet = false);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_THREADS_H_
