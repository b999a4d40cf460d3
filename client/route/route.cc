#include "client/route/route.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "proto/memory/ranges.h"

namespace quantd::client {
namespace {

// Bands of this many bytes are sent as streams, whatever `stream_from` is. The
// server copies a stream to a device while it still arrives, but a message only
// when it is complete. Smaller bands cost the server less as messages.
constexpr size_t kFlowingBand = size_t{8} << 20;

// Sets the transport of a call or of each band. It is a stream from
// `stream_from` bytes on.
void SetWay(const RouteFacts& facts, const Plan& plan, size_t stream_from,
            Route* route) {
  route->bytes = PayloadBytes(plan);
  const bool large =
      route->bytes >= stream_from || route->bytes > facts.most_in_message ||
      wire::LayOutPayload(plan, {}).size > wire::kMaxReplyPayloadBytes;
  route->way = facts.memory == CallMemory::kHere      ? Way::kHere
               : facts.memory != CallMemory::kTravels ? Way::kLent
               : large && facts.has_streams           ? Way::kStream
                                                      : Way::kMessage;
}

Route Whole(const RouteFacts& facts) {
  Route route;
  SetWay(facts, facts.plan, facts.stream_from, &route);
  return route;
}

// The plan of a call with the servers' defaults filled in. nullopt if these are
// unknown or make the plan illegal; a server then reports the best error.
std::optional<Plan> AsServed(const RouteFacts& facts) {
  QuantizeOptions o = std::get<QuantizeOptions>(facts.plan.options());
  if (o.nvfp4.amax_estimation_scale || !MayEstimate(o)) return facts.plan;
  if (!facts.servers) return std::nullopt;
  o.nvfp4.amax_estimation_scale = facts.servers->estimate;
  absl::StatusOr<Plan> plan = MakeQuantizePlan(facts.plan.tensor(), o);
  if (!plan.ok()) return std::nullopt;
  return *std::move(plan);
}

// Whether all bands can wait for one amax: servers support this, and their
// devices have memory for all at once. The first band is the largest.
bool MayMeet(const RouteFacts& facts, const Plan& served,
             const std::vector<Band>& bands) {
  if (bands.empty() || !facts.has_streams || !facts.servers ||
      !facts.servers->reduces) {
    return false;
  }
  const auto part = ReducingPlan(served, bands.front());
  if (!part.ok()) return false;
  const size_t held =
      part->input_bytes() + part->output_bytes() + part->scratch_bytes();
  // Each band uses one device, and all bands together 3/4 of each device, which
  // is half of the server's memory budget.
  size_t most = 0;
  for (const size_t n : facts.servers->memory) most += n / 4 * 3 / held;
  return bands.size() <= most;
}

Route OverConnections(const RouteFacts& facts, std::vector<Band> bands) {
  Route route{.at_once = facts.connections};
  if (!NeedsAmax(facts.plan)) {
    route.bands =
        CutToFlow(facts.plan, bands.size(), facts.connections, kFlowingBand);
    if (route.bands.empty()) route.bands = std::move(bands);
  } else {
    if (!facts.asked) return {.asks = true};
    route.served = AsServed(facts);
    if (!route.served) return Whole(facts);
    route.bands = CutToMeet(*route.served, facts.band_bytes);
    route.amax = BandAmax::kMeet;
    if (!MayMeet(facts, *route.served, route.bands)) {
      route.bands = std::move(bands);
      route.amax = BandAmax::kSearch;
    }
  }
  // CutIntoBands made sure that each band has a legal plan.
  SetWay(facts, *PlanOfBand(facts.plan, route.bands.front()),
         std::min(facts.stream_from, kFlowingBand), &route);
  return route;
}

// Names in the order of the enumerators of Way and BandAmax.
constexpr std::string_view kWays[] = {"here", "lent", "message", "stream"};
constexpr std::string_view kAmaxes[] = {"", ", amax met", ", amax first"};

}  // namespace

Route ChooseRoute(const RouteFacts& facts) {
  // With an overlap, one band could overwrite input that another still has to
  // read.
  const bool may_be_cut = facts.memory == CallMemory::kTravels && facts.apart &&
                          !facts.has_events && facts.has_finite_amax;
  std::vector<Band> bands;
  if (may_be_cut) bands = CutIntoBands(facts.plan, facts.band_bytes);
  return bands.empty() ? Whole(facts)
                       : OverConnections(facts, std::move(bands));
}

std::string ToString(const Route& route) {
  if (route.asks) return "ask servers";
  const std::string_view way = kWays[static_cast<int>(route.way)];
  if (route.bands.empty()) return fmt::format("whole, {}", way);
  return fmt::format("{} bands of {} rows, {} at once, {}{}",
                     route.bands.size(), route.bands.front().rows,
                     route.at_once, way, kAmaxes[static_cast<int>(route.amax)]);
}

}  // namespace quantd::client
