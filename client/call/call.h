// One call, and the transports that can carry it.
#ifndef QUANTD_CLIENT_CALL_CALL_H_
#define QUANTD_CLIENT_CALL_CALL_H_

#include <cstddef>
#include <functional>

#include "absl/types/span.h"
#include "client/call/call_control.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"

namespace quantd::client {

struct Lending;

// A call's arguments. The caller owns everything, and keeps it until the call
// ends.
struct Call {
  const Plan& plan;
  // One piece of memory for each input of the plan.
  absl::Span<const absl::Span<const std::byte>> payload;
  // Destinations for outputs, which have passed CheckDestinations.
  absl::Span<const Destination> into;
  CallEvents events;
  const CallLimit& limit;
  CallControl& control;
  // The result of Endpoint::Lend. Required for Way::kLent.
  Lending* lending = nullptr;
};

// Size of the payload: all inputs without gaps, in bytes.
inline size_t PayloadBytes(const Plan& plan) {
  size_t bytes = 0;
  for (const TensorSpec& input : plan.inputs()) bytes += input.size;
  return bytes;
}

enum class Way {
  kHere,     // computed in this process
  kLent,     // one message that refers to memory shared with the server
  kMessage,  // one message that contains the payload
  kStream,   // one message per chunk of the payload
};

// Called in each attempt once the whole request was handed to the network. May
// be empty.
using OnSent = std::function<void()>;

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_CALL_H_
