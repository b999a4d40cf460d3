// Chooses the server for a call. A pure function: no clock, network or threads.
#ifndef QUANTD_CLIENT_NET_PICKER_H_
#define QUANTD_CLIENT_NET_PICKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace quantd::client {

// A server's last known health.
enum class Health {
  kUnknown,   // no answer yet: connecting or reconnecting
  kServing,   // serving, or answering without a health service
  kDraining,  // answering, but asking clients to send no more calls
  kDown,      // unreachable
};

struct Candidate {
  Health health = Health::kUnknown;
  size_t bytes_under_way = 0;  // requests sent and not yet answered
  uint64_t last_pick = 0;      // counts up; the smallest is the oldest pick
  bool tried = false;          // the call has tried it since it last paused
  // The server is avoided until this time, because it was busy, or refused or
  // failed a call.
  std::chrono::system_clock::time_point avoid_until = {};
};

struct Choice {
  enum class Kind {
    kTake,  // use candidate `index`
    kWait,  // no server is serving; wait for those of unknown health
    kNone,  // no server is left that the call may try
  };
  Kind kind = Kind::kNone;
  size_t index = 0;
  // The chosen server is draining or to be avoided, but there is no better one.
  bool avoided = false;
};

// Chooses among the serving servers that the call has not tried. The server
// with the fewest bytes in flight wins; among equals, the one chosen least
// recently. Servers to avoid come last. A draining server still accepts calls
// for a moment. It is chosen only if no other server is serving or unknown.
Choice Choose(absl::Span<const Candidate> candidates,
              std::chrono::system_clock::time_point now);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_PICKER_H_
