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

// Everything here must outlive the call.
struct BandedCall {
  Endpoint& endpoint;
  // The plan of `call`, perhaps completed as servers do.
  const Plan& plan;
  const Call& call;
  const CallProgress& progress;
  // They cover the rows; none is larger than the first.
  const std::vector<Band>& bands;
  // Bands in flight to a server at a time.
  int at_once;
  BandAmax amax;
  Way way;
};

// Runs the call in bands. The first band that fails ends the others, and its
// error names its rows. Returns nullopt if the amax turned out to be NaN or
// Inf, which no request can contain.
absl::StatusOr<std::optional<Result>> RunInBands(const BandedCall& call);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_CALLS_H_
