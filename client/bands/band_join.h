// Joins the results of a call's bands.
#ifndef QUANTD_CLIENT_BANDS_BAND_JOIN_H_
#define QUANTD_CLIENT_BANDS_BAND_JOIN_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/bands/band_place.h"
#include "client/bands/band_plan.h"
#include "client/tensors/result_builder.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// Assembles the whole result. Tensors of rows are contiguous, so a band's call
// writes them in place. Parts in strips (columnwise codes, swizzled or not) are
// received in memory of the band, and copied by the thread that made its call.
//
// Thread-safe after Begin and until Take.
class BandJoin {
 public:
  // `into` has passed CheckDestinations. All arguments must outlive it.
  BandJoin(const Plan& whole, const BandPlaces& places,
           absl::Span<const Destination> into);

  // Must be called first. RESOURCE_EXHAUSTED if memory is exhausted.
  absl::Status Begin();
  // The destinations for the call of a band with this `plan`.
  std::vector<Destination> PlacesOf(const Band& band, const Plan& plan) const;
  // INTERNAL if the result does not fit there.
  absl::Status Add(const Band& band, const Plan& plan, const Result& result);
  // Call once all bands were added. `sent` is the number of further calls made.
  absl::StatusOr<Result> Take(int sent);

 private:
  bool IsWritten(const TensorSpec& part, const Strip& strip,
                 const Plan& plan) const;

  const Plan& plan_;
  const BandPlaces& places_;
  ResultBuilder builder_;
  std::vector<absl::Span<std::byte>> targets_;  // memory of the plan's outputs

  std::mutex mutex_;
  ResultBuilder::Report report_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_JOIN_H_
