// Makes one call as calls for its bands, several at a time.
#ifndef QUANTD_CLIENT_BANDS_BAND_CALLS_H_
#define QUANTD_CLIENT_BANDS_BAND_CALLS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bands/band_plan.h"
#include "client/call/call.h"
#include "client/call/endpoint.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// All must outlive the call.
struct BandedCall {
  Endpoint& endpoint;
  // The plan of `call`, or that plan as servers complete it.
  const Plan& plan;
  const Call& call;
  const CallProgress& progress;
  // Cover the rows; none is larger than the first.
  const std::vector<Band>& bands;
  // So many bands are on their way to a server at a time.
  int at_once;
  BandAmax amax;
  Way way;
};

// The first band that fails ends the others, and its error says its rows.
// Nothing: the amax turned out to be NaN or Inf, which no request can give.
absl::StatusOr<std::optional<Result>> RunInBands(const BandedCall& call);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_CALLS_H_
