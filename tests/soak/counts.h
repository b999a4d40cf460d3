// What a caller counts, in memory that outlives it: soak.py reads the file
// after the caller was killed, too.
#ifndef QUANTD_TESTS_SOAK_COUNTS_H_
#define QUANTD_TESTS_SOAK_COUNTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace quantd::soak {

// Each kind has one method at the server, so that counts can be compared.
// callers.py has the same names in the same order.
enum Kind {
  kQuantize,    // Quantize
  kDequantize,  // Dequantize
  kAmax,        // RhtAmax
  kRotate,      // ApplyRht
  kStream,      // Quantize, in chunks
  kBands,       // Dequantize, in bands
  kShared,      // Quantize, in memory that is shared with the server
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
  Counter right;     // ended well, with the bytes that were expected
  Counter wrong;     // ended well, with others
  Counter attempts;  // of those that ended, as the client tells
  Counter bands;     // of those that ended well: calls that they were made of
  Counter lent;      // of those that ended well: went by shared memory
  std::array<Counter, kCodes> failed;  // by code
  std::array<Counter, kCodes> told;    // of these: in a server's own words
};

struct Counts {
  // Set by who looks on: no call begins while it is not 0.
  Counter paused;
  Counter threads;  // that call
  Counter resting;  // of these: have seen that they are to pause
  std::array<KindCounts, kKinds> kinds;
};

}  // namespace quantd::soak

#endif  // QUANTD_TESTS_SOAK_COUNTS_H_
