// The trace that a call belongs to, as W3C Trace Context writes it in the
// metadata `traceparent`: "00-<trace id>-<span id>-<flags>".
//
// The server makes no calls of its own, so what it takes goes into its log
// and no further; `tracestate`, which only matters to who passes it
// on, is not read.
#ifndef QUANTD_PROTO_NET_TRACE_CONTEXT_H_
#define QUANTD_PROTO_NET_TRACE_CONTEXT_H_

#include <array>
#include <optional>
#include <string_view>

namespace quantd::wire {

inline constexpr char kTraceparentKey[] = "traceparent";

struct TraceContext {
  std::array<char, 32> trace_id = {};  // hexadecimal digits, in small letters
  std::array<char, 16> span_id = {};   // the caller's

  std::string_view trace() const { return {trace_id.data(), trace_id.size()}; }
  std::string_view span() const { return {span_id.data(), span_id.size()}; }
};

// Nothing for what the recommendation says to ignore: anything malformed, ids
// of zeros, version ff, and more than there should be in version 00. Of later
// versions the part that version 00 has is read.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_NET_TRACE_CONTEXT_H_
