// The way of a call: decided here alone, in plain functions of what is
// known, without network, devices or clock. client/route/router.h gathers what
// is known and follows.
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

// The place of the input and the results of a call.
enum class CallMemory {
  kHere,     // where this process' devices find them
  kTravels,  // where servers see nothing of them
  kLent,     // some in memory that a server shares
};

// How a server is set. Those of one client are taken to be alike: of others a
// part is refused, and goes twice.
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
  // To all servers.
  int connections = 1;

  // Settings of ClientOptions.
  size_t stream_from = SIZE_MAX;
  size_t band_bytes = 0;

  // The largest payload of one message that no server has refused.
  size_t most_in_message = SIZE_MAX;
  // Servers were asked for their settings; nothing: none answered.
  bool asked = false;
  std::optional<ServerSettings> servers = std::nullopt;
  // What attempts have shown to be otherwise.
  bool has_streams = true;
  bool has_finite_amax = true;
};

struct Route {
  // Chosen is only that servers are asked for their settings.
  bool asks = false;
  // The way of the whole or of each band, and the payload of one, but for a
  // shorter last one. Bands that meet do so in streams; it is that of those
  // which have to go once more.
  Way way = Way::kMessage;
  size_t bytes = 0;
  // Empty: the call goes as a whole.
  std::vector<Band> bands = {};
  // Bands on their way to a server at a time.
  int at_once = 1;
  BandAmax amax = BandAmax::kKnown;
  // The plan as servers complete it, where bands have to know.
  std::optional<Plan> served = std::nullopt;
};

Route ChooseRoute(const RouteFacts& facts);

// "whole, message"; "9 bands of 512 rows, 2 at once, streams, amax met".
std::string ToString(const Route& route);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_ROUTE_ROUTE_H_
