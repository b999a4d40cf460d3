// The caller as far as admission cares, and what the caller may do.
#ifndef QUANTD_SERVER_GATE_CALLER_H_
#define QUANTD_SERVER_GATE_CALLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/methods.h"

namespace quantd {

// The order among calls that wait, see the gate.
enum class Priority : char { kHigh, kNormal, kLow };

// Nothing for what is none of "high", "normal" and "low".
std::optional<Priority> ParsePriority(std::string_view text);

struct Caller {
  // The name that has the share: "token:NAME" or "certificate:SUBJECT". Empty:
  // nothing is known but where the call comes from.
  std::string identity;
  // Methods of quantd.v1.Quantd, a bit for each by wire::Index.
  uint32_t methods = UINT32_MAX;
  bool may_be_high = false;
  // At once and a second, of all calls of the identity; 0: as the server can.
  uint32_t calls_in_flight = 0;
  uint64_t bytes_per_second = 0;

  bool May(wire::Method method) const {
    return (methods >> wire::Index(method) & 1) != 0;
  }
  bool operator==(const Caller&) const = default;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_CALLER_H_
