// Decides whether and where a call is cut into bands.
//
// A band is a run of whole rows of the M x K matrix, processed by a call of its
// own. The joined results equal those of a single call byte for byte. WhyWhole
// alone lists the calls that cannot be cut.
//
// All functions are pure and expect legal plans. They use no network and no
// device.
#ifndef QUANTD_CLIENT_BANDS_BAND_PLAN_H_
#define QUANTD_CLIENT_BANDS_BAND_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/plan/shards.h"
#include "quantd/plan.h"

namespace quantd::client {

// The number of rows of every band except the last is a multiple of this. It is
// a multiple of every block, rotation and scale tile.
inline constexpr int64_t kBandRows = 128;
// Calls with at most this many bytes in each direction are never cut.
inline constexpr size_t kNeverCut = size_t{4} << 20;
// Rows [row, row + rows).
struct Band {
  int64_t row = 0;
  int64_t rows = 0;
};

// How bands that share an amax obtain it.
enum class BandAmax {
  kKnown,  // the caller gave it, or each band has its own
  // Each band is a stream that reports its maxima once its payload is sent, and
  // then waits for the maxima of all bands.
  kMeet,
  kSearch,  // an additional call for each band finds it first
};

// The reason why a call must not be cut, such as "statistics". Empty if it may
// be cut at multiples of kBandRows.
std::string_view WhyWhole(const Plan& plan);

// Returns the bands of a call. Each carries about `band_bytes` in the larger
// direction, and has at least kBandRows rows. Returns no bands if the call must
// not be cut, is small, or would be a single band, or if `band_bytes` is 0.
std::vector<Band> CutIntoBands(const Plan& plan, size_t band_bytes);

// Returns one band per connection for a call that would otherwise send about
// two per connection. A server returns outputs of a band while the rest
// arrives, so one large band is faster than two in sequence. Returns no bands
// if there is a single connection, if `bands`, the size of CutIntoBands'
// result, is more than two per connection, or if a band would have fewer than
// `least` bytes.
std::vector<Band> CutToFlow(const Plan& plan, size_t bands, int connections,
                            size_t least);

// Whether the bands of a Quantize share an amax that the caller did not give.
bool NeedsAmax(const Plan& plan);

// The plan that finds a band's contribution to the shared amax. NeedsAmax must
// be true.
absl::StatusOr<Plan> AmaxPlanOf(const Plan& plan, const Band& band);

// Limit of bands that wait for one amax at the same time (see ReducingPlan).
// Each occupies memory of its server and a stream of a connection until all
// have sent.
inline constexpr size_t kMostMeeting = 8;
// Returns the bands for BandAmax::kMeet: those of CutIntoBands, or fewer and
// larger ones. Returns no bands if more than kMostMeeting remain.
std::vector<Band> CutToMeet(const Plan& plan, size_t band_bytes);
// The plan of a band that receives the amax in the middle of its stream.
// NeedsAmax must be true. The band also receives the amax values that the
// caller gave.
absl::StatusOr<Plan> ReducingPlan(const Plan& plan, const Band& band);
// The band's entries of the reduced amax values of the whole.
CopyAmax AmaxOfBand(const Plan& plan, const Band& band, const CopyAmax& whole);

// The plan of one band. `amax`, required if NeedsAmax, must have passed
// SettleAmax.
absl::StatusOr<Plan> PlanOfBand(const Plan& plan, const Band& band,
                                const CopyAmax* amax = nullptr);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLAN_H_
