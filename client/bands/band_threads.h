// Threads that process the bands of a call.
#ifndef QUANTD_CLIENT_BANDS_BAND_THREADS_H_
#define QUANTD_CLIENT_BANDS_BAND_THREADS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "client/bands/band_plan.h"
#include "client/bands/turns.h"
#include "client/call/call_control.h"

namespace quantd::client {

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
