// Decides the way of a call: the only place that does. Plain functions of known
// facts, without network, devices or clock. client/route/router.h gathers the
// facts and carries out the decision.
#ifndef QUANTD_CLIENT_ROUTE_ROUTE_H_
#define QUANTD_CLIENT_ROUTE_ROUTE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/bands/band_plan.h"
#include "client/call/call.h"
#include "quantd/plan.h"

namespace quantd::client {

// Memory of a call's input and results.
enum class CallMemory {
  kHere,     // usable by this process' devices
  kTravels,  // not visible to servers
  kLent,     // some is shared with a server
};

// A server's settings. Those of one client are assumed to be alike; otherwise
// some servers refuse, and their calls are sent twice.
struct ServerSettings {
  bool reduces = false;
  float estimate = 0;
  std::vector<size_t> memory = {};  // of each device that serves
};

struct RouteFacts {
  const Plan& plan;
  // No result is written over an input.
  bool apart = true;
  bool has_events = false;
  CallMemory memory = CallMemory::kTravels;
  // To all servers together.
  int connections = 1;

  // Settings of ClientOptions.
  size_t stream_from = SIZE_MAX;
  size_t band_bytes = 0;

  // The largest payload of one message that no server has refused.
  size_t most_in_message = SIZE_MAX;
  // Whether servers were asked for their settings; nullopt: none answered.
  bool asked = false;
  std::optional<ServerSettings> servers = std::nullopt;
  // Assumptions until an attempt shows otherwise.
  bool has_streams = true;
  bool has_finite_amax = true;
};

struct Route {
  // The only decision is to ask servers for their settings.
  bool asks = false;
  // The way of the whole or of each band, and the payload size of one; the last
  // may be shorter. Bands that meet are streams; then this is the way of those
  // that must be sent again.
  Way way = Way::kMessage;
  size_t bytes = 0;
  // Empty: the call is sent as a whole.
  std::vector<Band> bands = {};
  // Bands in flight to a server at a time.
  int at_once = 1;
  BandAmax amax = BandAmax::kKnown;
  // The plan as servers complete it, if bands need it.
  std::optional<Plan> served = std::nullopt;
};

Route ChooseRoute(const RouteFacts& facts);

// "whole, message"; "9 bands of 512 rows, 2 at once, streams, amax met".
std::string ToString(const Route& route);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_ROUTE_ROUTE_H_
