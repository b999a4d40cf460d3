// Puts together what came of the bands of a call.
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

// Tensors of rows lie together: a band's call writes them where they belong.
// What lies in strips (columnwise codes, swizzled or not) comes in memory of
// the band's own and is copied once more, by the thread that made the call.
//
// Thread-safe after Begin and until Take.
class BandJoin {
 public:
  // `into` has passed CheckDestinations. All must outlive it.
  BandJoin(const Plan& whole, const BandPlaces& places,
           absl::Span<const Destination> into);

  // First. RESOURCE_EXHAUSTED when there is no memory.
  absl::Status Begin();
  // The places to which the call of a band with this `plan` writes.
  std::vector<Destination> PlacesOf(const Band& band, const Plan& plan) const;
  // INTERNAL for what does not fit there.
  absl::Status Add(const Band& band, const Plan& plan, const Result& result);
  // When all were added. `sent`: calls that were made beside those.
  absl::StatusOr<Result> Take(int sent);

 private:
  bool IsWritten(const TensorSpec& part, const Strip& strip,
                 const Plan& plan) const;

  const Plan& plan_;
  const BandPlaces& places_;
  ResultBuilder builder_;
  std::vector<absl::Span<std::byte>> targets_;  // of the plan's outputs

  std::mutex mutex_;
  ResultBuilder::Report report_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_JOIN_H_
