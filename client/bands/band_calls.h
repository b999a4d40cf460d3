// Makes one call as calls for its bands, several at a time.
#ifndef QUANTD_CLIENT_BANDS_BAND_CALLS_H_
#define QUANTD_CLIENT_BANDS_BAND_CALLS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/bands/band_plan.h"
#include "client/call/call_control.h"
#include "client/call/endpoint.h"
#include "client/call_options.h"
#include "client/result.h"
#include "kernels/plan/plan.h"

namespace quantd::client {

// A call as a Client has it; all is the caller's and must outlive it.
struct WholeCall {
  Endpoint& endpoint;
  const Plan& plan;
  // A piece for each input of the plan.
  absl::Span<const absl::Span<const std::byte>> payload;
  // Has passed CheckDestinations.
  absl::Span<const Destination> into;
  const CallEvents& events;
  const CallLimit& limit;
  CallControl& control;
  const CallProgress& progress;
};

// In one call, or in bands of `band_bytes` over the endpoint's connections.
absl::StatusOr<Result> RunCall(const WholeCall& call, size_t band_bytes);

// In these bands, each of which is sent once, `at_once` at a time, and waits
// for the others: their amax is made of what all of them add. Of a plan that
// needs one; where that turns out to be NaN or Inf, which no request can give,
// the call is made as one.
absl::StatusOr<Result> RunMeeting(const WholeCall& call,
                                  const std::vector<Band>& bands, int at_once);

// In these bands, which cover the rows, `at_once` of which are sent at a time.
// Where an amax must be known first and none is given, all bands are sent
// twice; where it turns out to be NaN or Inf, which no request can give, the
// call is made as one. The first band that fails ends the others, and its error
// says its rows.
absl::StatusOr<Result> RunInBands(const WholeCall& call,
                                  const std::vector<Band>& bands, int at_once);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_CALLS_H_
