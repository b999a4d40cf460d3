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

// Calls `work` for all bands, `at_once` at a time; the first error ends the
// others. Work begins with a turn, which it gives back. With `meet` all bands
// run at once, or none, since they wait for each other.
absl::Status ForEachBand(CallControl& whole, const std::vector<Band>& bands,
                         int at_once, Turns& turns, const Work& work,
                         bool meet = false);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_THREADS_H_
