// Decides whether and where a call is cut into bands.
//
// A band is a run of whole rows of the M x K matrix, processed by a call of its
// own. The joined results are byte for byte those of a single call. WhyWhole is
// the only list of what cannot be cut.
//
// Pure functions of legal plans: no network, no devices.
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

// Rows of every band but the last are a multiple of this, which is a multiple
// of every block, rotation and tile of scales.
inline constexpr int64_t kBandRows = 128;
// Calls that carry at most this much each way are never cut.
inline constexpr size_t kNeverCut = size_t{4} << 20;
// Rows [row, row + rows).
struct Band {
  int64_t row = 0;
  int64_t rows = 0;
};

// How bands that share an amax get it.
enum class BandAmax {
  kKnown,   // it is given, or each band has its own
  kMeet,    // each band tells its maxima, and waits for the others
  kSearch,  // all bands are sent twice, to find it first
};

// Why a call must not be cut, such as "statistics". Empty: it may be, at
// multiples of kBandRows.
std::string_view WhyWhole(const Plan& plan);

// The bands of a call. Each carries `band_bytes` in the larger direction, but
// at least kBandRows rows. Empty if the call is not cut: because it must not
// be, is small, or would be one band. `band_bytes` 0: no call is cut.
std::vector<Band> CutIntoBands(const Plan& plan, size_t band_bytes);

// One larger band for each connection, if the call would otherwise take about
// two on each: its outputs leave while the rest arrives, which is faster than a
// second band behind the first. Empty if `bands`, the number from CutIntoBands,
// is larger, or if bands would have fewer than `least` bytes.
std::vector<Band> CutToFlow(const Plan& plan, size_t bands, int connections,
                            size_t least);

// Whether the bands of a Quantize need an amax of the whole that is not given
// and must be found first.
bool NeedsAmax(const Plan& plan);

// The plan that finds a band's contribution to that amax. NeedsAmax must be
// true.
absl::StatusOr<Plan> AmaxPlanOf(const Plan& plan, const Band& band);

// Limit of bands that are sent at once to meet in one amax (ReducingPlan): each
// occupies memory of its server and a connection's stream until the last has
// arrived.
inline constexpr size_t kMostMeeting = 8;
// The bands of such a call: those of CutIntoBands, or fewer and larger ones.
// Empty if there would still be too many.
std::vector<Band> CutToMeet(const Plan& plan, size_t band_bytes);
// The plan of a band that receives the amax in the middle of its stream.
// NeedsAmax must be true. Values that the caller gave are returned with the
// others.
absl::StatusOr<Plan> ReducingPlan(const Plan& plan, const Band& band);
// The part of the reduced amaxes for such a band.
CopyAmax AmaxOfBand(const Plan& plan, const Band& band, const CopyAmax& whole);

// Turns the bands' reduced maxima into the amaxes for the options: applies
// estimates and fills in what the caller gave. Values may be Inf or NaN.
void Settle(const Plan& plan, CopyAmax* amax);

// The plan of one band. `amax` is the settled one, required if NeedsAmax.
absl::StatusOr<Plan> PlanOfBand(const Plan& plan, const Band& band,
                                const CopyAmax* amax = nullptr);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLAN_H_
