// Whether one call is cut into bands, and where.
//
// A band is a run of whole rows of the M x K matrix, worked on by a call of its
// own. What comes of the bands, put together, is byte for byte what one call
// gives: the one table of what can be cut so is WhyWhole.
//
// Pure functions of plans that are legal: no network, no devices.
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

// Rows of every band but the last are a multiple of this, which every block,
// rotation and tile of scales divides.
inline constexpr int64_t kBandRows = 128;
// Calls that carry no more than this each way are never cut.
inline constexpr size_t kNeverCut = size_t{4} << 20;
// Rows [row, row + rows).
struct Band {
  int64_t row = 0;
  int64_t rows = 0;
};

// How bands that have one amax get it.
enum class BandAmax {
  kKnown,   // it is given, or each band has its own
  kMeet,    // each band tells what it adds, and waits for the others
  kSearch,  // all bands are sent twice, to find it first
};

// Why a call is never cut: "statistics". Empty: it may be, at multiples of
// kBandRows.
std::string_view WhyWhole(const Plan& plan);

// The bands of a call: as many rows as carry `band_bytes` the way that carries
// more, kBandRows at least. Empty: it is not cut, because it may not be, is
// small, or would be one band. `band_bytes` 0: no call is cut.
std::vector<Band> CutIntoBands(const Plan& plan, size_t band_bytes);

// One band for each of so many connections, of a call that would be over in two
// bands of each: larger ones whose outputs leave while the rest comes in are
// sooner there than a second one behind the first. Empty: `bands`, the number
// of those of CutIntoBands, is larger, or these have fewer than `least` bytes.
std::vector<Band> CutToFlow(const Plan& plan, size_t bands, int connections,
                            size_t least);

// Whether the bands of a Quantize need an amax of the whole that is not given,
// so that it has to be found before.
bool NeedsAmax(const Plan& plan);

// Asks a band what it adds to that amax; of a plan that needs it.
absl::StatusOr<Plan> AmaxPlanOf(const Plan& plan, const Band& band);

// No more of them are sent at once to meet in one amax (ReducingPlan): each
// holds memory of its server and a connection's stream until the last is there.
inline constexpr size_t kMostMeeting = 8;
// The bands of such a call: those of CutIntoBands, or fewer that are larger.
// Empty: there would be too many all the same.
std::vector<Band> CutToMeet(const Plan& plan, size_t band_bytes);
// The call for a band that is told the amax between its halves, of a plan that
// needs one. What the caller gave comes back with the rest.
absl::StatusOr<Plan> ReducingPlan(const Plan& plan, const Band& band);
// The part of the settled amaxes that such a band is given.
CopyAmax AmaxOfBand(const Plan& plan, const Band& band, const CopyAmax& whole);

// From what the bands add up to, to what is given in options: estimates are
// made, and what the caller gave is filled in. Values may be Inf or NaN.
void Settle(const Plan& plan, CopyAmax* amax);

// The call for one band. `amax`, where NeedsAmax says so: what was settled.
absl::StatusOr<Plan> PlanOfBand(const Plan& plan, const Band& band,
                                const CopyAmax* amax = nullptr);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_BANDS_BAND_PLAN_H_
