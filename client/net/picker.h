// Chooses the server for a call. Has no clock, no network and no threads.
#ifndef QUANTD_CLIENT_NET_PICKER_H_
#define QUANTD_CLIENT_NET_PICKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace quantd::client {

// A server's last known health.
enum class Health {
  kUnknown,   // nothing yet: connecting or reconnecting
  kServing,   // or it answers and has no health service
  kDraining,  // answers, but asks for no more calls
  kDown,      // it cannot be reached
};

struct Candidate {
  Health health = Health::kUnknown;
  size_t bytes_under_way = 0;  // requests sent and not yet answered
  uint64_t last_pick = 0;      // counts up; the smallest is the oldest pick
  bool tried = false;          // by this call, since it last paused
  // Avoid the server until then: it was busy, refused or failed a call.
  std::chrono::system_clock::time_point avoid_until = {};
};

struct Choice {
  enum class Kind {
    kTake,  // take `index`
    kWait,  // until the health of an unknown server is known
    kNone,  // this call has tried all servers
  };
  Kind kind = Kind::kNone;
  size_t index = 0;
  // The server should be avoided, but there is no better one.
  bool avoided = false;
};

// Picks, among serving servers that were not tried, the one with the fewest
// bytes in flight; among equals, the one picked least recently. Servers to
// avoid come last. A draining server, which still takes calls for a moment, is
// picked only if no other serves or may turn out to.
Choice Choose(absl::Span<const Candidate> candidates,
              std::chrono::system_clock::time_point now);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_PICKER_H_
