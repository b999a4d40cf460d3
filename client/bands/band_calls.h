// Splits one call into calls for bands of its rows, and runs several at a time.
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

// Describes a call to split. Everything that it refers to must outlive the
// call.
struct BandedCall {
  Endpoint& endpoint;
  // The plan of `call`, with the server's defaults filled in where they matter.
  const Plan& plan;
  const Call& call;
  const CallProgress& progress;
  // The bands cover all rows. The first band is the largest.
  const std::vector<Band>& bands;
  // Number of bands that may be sent at a time.
  int at_once;
  BandAmax amax;
  Way way;
};

// Runs the call in bands. The first band that fails cancels the others, and its
// error names the rows of that band. Returns nullopt if the amax is NaN or Inf,
// which no request can contain.
absl::StatusOr<std::optional<Result>> RunInBands(const BandedCall& call);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_CALLS_H_
