// The caller of a call as admission sees it: an identity and its rights.
#ifndef QUANTD_SERVER_GATE_CALLER_H_
#define QUANTD_SERVER_GATE_CALLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/methods.h"

namespace quantd {

// Order among waiting calls, see gate.h.
enum class Priority : char { kHigh, kNormal, kLow };

// Returns nullopt unless the text is "high", "normal" or "low".
std::optional<Priority> ParsePriority(std::string_view text);

struct Caller {
  // Name under which the caller's share is counted: "token:NAME" or
  // "certificate:SUBJECT". Empty: only the caller's address is known.
  std::string identity;
  // Methods of quantd.v1.Quantd that the caller may use, one bit each by
  // wire::Index.
  uint32_t methods = UINT32_MAX;
  bool may_be_high = false;

  bool May(wire::Method method) const {
    return (methods >> wire::Index(method) & 1) != 0;
  }
  bool operator==(const Caller&) const = default;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_CALLER_H_
