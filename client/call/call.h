// One call, and the ways to make it.
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

// Everything is the caller's and must outlive the call.
struct Call {
  const Plan& plan;
  // A piece for each input of the plan.
  absl::Span<const absl::Span<const std::byte>> payload;
  // Has passed CheckDestinations.
  absl::Span<const Destination> into;
  CallEvents events;
  const CallLimit& limit;
  CallControl& control;
  // The result of Endpoint::Lend, for a call by Way::kLent.
  Lending* lending = nullptr;
};

// Size of the payload: all inputs, without gaps.
inline size_t PayloadBytes(const Plan& plan) {
  size_t bytes = 0;
  for (const TensorSpec& input : plan.inputs()) bytes += input.size;
  return bytes;
}

enum class Way {
  kHere,     // computed by this process
  kLent,     // a message about memory that a server shares
  kMessage,  // one message
  kStream,   // a message for each chunk
};

// Called with each attempt once the whole request has been given to the
// network; may be empty.
using OnSent = std::function<void()>;

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_CALL_H_
