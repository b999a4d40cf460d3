// Decides how a call is sent, except one with a reduced amax
// (Router::RunReduced). Pure functions of known facts, without network, devices
// or clock. client/route/router.h collects the facts and carries out the
// decision.
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

// The memory that holds a call's inputs and results.
enum class CallMemory {
  kHere,     // in memory of this process, whose devices compute
  kTravels,  // in memory that servers cannot access
  kLent,     // at least partly in memory shared with a server
};

// Settings of the servers. All servers of a client are assumed to have the
// same. Otherwise some may refuse a call, which is then sent in another way.
struct ServerSettings {
  bool reduces = false;
  float estimate = 0;
  std::vector<size_t> memory = {};  // bytes of each healthy device
};

// What is known about a call and its servers.
struct RouteFacts {
  const Plan& plan;
  // True if no result is written over an input.
  bool apart = true;
  bool has_events = false;
  CallMemory memory = CallMemory::kTravels;
  // The number of connections to all servers.
  int connections = 1;

  // Settings of ClientOptions.
  size_t stream_from = SIZE_MAX;
  size_t band_bytes = 0;

  // The largest payload in one message that no server has refused as too large.
  size_t most_in_message = SIZE_MAX;
  // Whether the servers were asked for their settings. If none answered,
  // `servers` is nullopt.
  bool asked = false;
  std::optional<ServerSettings> servers = std::nullopt;
  // Both are true until an attempt shows otherwise.
  bool has_streams = true;
  bool has_finite_amax = true;
};

// How to send a call.
struct Route {
  // If true, ask a server for its settings and choose again.
  bool asks = false;
  // The transport of the call or of each band, and the payload bytes of the
  // call or of the first, largest band. With BandAmax::kMeet the bands are
  // streams; `way` is used only if a server cannot do that, and the bands are
  // sent twice.
  Way way = Way::kMessage;
  size_t bytes = 0;
  // The bands. Empty if the call is sent as a whole.
  std::vector<Band> bands = {};
  // Number of bands that may be sent at a time.
  int at_once = 1;
  BandAmax amax = BandAmax::kKnown;
  // The plan with the servers' defaults, if the bands need it.
  std::optional<Plan> served = std::nullopt;
};

// Chooses how to send a call.
Route ChooseRoute(const RouteFacts& facts);

// Text such as "whole, message" or "9 bands of 512 rows, 2 at once, stream,
// amax met".
std::string ToString(const Route& route);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_ROUTE_ROUTE_H_
