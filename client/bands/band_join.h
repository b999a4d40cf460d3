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
#include "client/tensors/copy_window.h"
#include "client/tensors/result_builder.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// Assembles the result of a whole call. If a band's part of an output is
// contiguous, the band's call writes it in place. Other parts (columnwise data,
// swizzled scales) are received into memory of the band, and its thread copies
// them.
// Thread-safe after Begin and until Take.
class BandJoin {
 public:
  // `into` must have passed CheckDestinations. All arguments must outlive this.
  BandJoin(const Plan& whole, const BandPlaces& places,
           absl::Span<const Destination> into);

  // Allocates the outputs; call it first. Returns RESOURCE_EXHAUSTED if that
  // fails.
  absl::Status Begin();
  // Destinations within the whole result for the call of `band`, whose plan is
  // `plan`.
  std::vector<Destination> PlacesOf(const Band& band, const Plan& plan) const;
  // Adds the result of one band. Returns INTERNAL if it does not fit.
  absl::Status Add(const Band& band, const Plan& plan, const Result& result);
  // Returns the whole result; call it after all bands were added. `sent`
  // requests were sent in addition to those of the bands that were added.
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
