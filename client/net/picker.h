// Choice of the server for a call. It has no clock, no network and no threads.
#ifndef QUANTD_CLIENT_NET_PICKER_H_
#define QUANTD_CLIENT_NET_PICKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace quantd::client {

// What a server was last heard to say of itself.
enum class Health {
  kUnknown,   // nothing yet: a connection is being made, or made again
  kServing,   // also one that answers and has no word for its health
  kDraining,  // it answers, and asks for no more calls
  kDown,      // it cannot be reached
};

struct Candidate {
  Health health = Health::kUnknown;
  size_t bytes_under_way = 0;  // requests sent to it and not yet answered
  uint64_t last_pick = 0;      // counts up; the least was longest ago
  bool tried = false;          // by this call, since it last paused
  // Better not before: it was busy, refused or failed a call.
  std::chrono::system_clock::time_point avoid_until = {};
};

struct Choice {
  enum class Kind {
    kTake,  // `index`
    kWait,  // until an unknown one is heard of
    kNone,  // none is left that this call has not tried
  };
  Kind kind = Kind::kNone;
  size_t index = 0;
  bool avoided = false;  // for want of a better one
};

// Picks, among the servers that serve and were not tried, the one with the
// fewest bytes under way; of equals, the one that was not picked for longest.
// Servers with nothing against them come first, then those to avoid. A draining
// server is picked only if no other serves or may turn out to: it still takes
// calls for a moment.
Choice Choose(absl::Span<const Candidate> candidates,
              std::chrono::system_clock::time_point now);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_PICKER_H_
