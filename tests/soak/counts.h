// A caller's counters in a mapped file, which soak.py can read even if the
// caller was killed.
#ifndef QUANTD_TESTS_SOAK_COUNTS_H_
#define QUANTD_TESTS_SOAK_COUNTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace quantd::soak {

// The kinds of calls. Each uses one method of the server, so that counts can be
// compared. callers.py has the same names in the same order.
enum Kind {
  kQuantize,    // Quantize
  kDequantize,  // Dequantize
  kAmax,        // RhtAmax
  kRotate,      // ApplyRht
  kStream,      // Quantize, in chunks
  kBands,       // Dequantize, in bands
  kShared,      // Quantize, in memory shared with the server
  kInvalid,     // Quantize, which no server accepts
  kCancelled,   // ApplyRht, cancelled at a random moment
  kExpired,     // ApplyRht, with too short a deadline
};
inline constexpr std::string_view kKindNames[] = {
    "quantize", "dequantize", "amax",    "rotate",    "stream",
    "bands",    "shared",     "invalid", "cancelled", "expired"};
inline constexpr size_t kKinds = std::size(kKindNames);
inline constexpr size_t kCodes = 17;  // of gRPC and absl

using Counter = std::atomic<uint64_t>;
static_assert(Counter::is_always_lock_free);

struct KindCounts {
  Counter started;
  Counter right;     // succeeded with the expected bytes
  Counter wrong;     // succeeded with other bytes
  Counter attempts;  // of finished calls, reported by the client
  Counter bands;     // of successful calls: number of their bands
  Counter lent;      // of successful calls: used shared memory
  std::array<Counter, kCodes> failed;  // by code
  std::array<Counter, kCodes> told;    // of these: reported by a server
};

struct Counts {
  // soak.py sets this; no call begins while it is not 0.
  Counter paused;
  Counter threads;  // number of threads that make calls
  Counter resting;  // number of these that have seen `paused`
  std::array<KindCounts, kKinds> kinds;
};

}  // namespace quantd::soak

#endif  // QUANTD_TESTS_SOAK_COUNTS_H_
