// The trace that a call belongs to, as W3C Trace Context writes it in the
// metadata `traceparent`: "00-<trace id>-<span id>-<flags>".
//
// The server makes no calls of its own, so the trace goes into its log and no
// further; `tracestate`, which only matters to programs that pass it on, is not
// read.
#ifndef QUANTD_PROTO_NET_TRACE_CONTEXT_H_
#define QUANTD_PROTO_NET_TRACE_CONTEXT_H_

#include <array>
#include <optional>
#include <string_view>

namespace quantd::wire {

inline constexpr char kTraceparentKey[] = "traceparent";

struct TraceContext {
  std::array<char, 32> trace_id = {};  // lower-case hexadecimal digits
  std::array<char, 16> span_id = {};   // the caller's span

  std::string_view trace() const { return {trace_id.data(), trace_id.size()}; }
  std::string_view span() const { return {span_id.data(), span_id.size()}; }
};

// Reads a traceparent. nullopt for what the recommendation says to ignore:
// malformed text, ids of zeros, version ff, and version 00 with additional
// parts. Later versions are read as far as version 00 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_NET_TRACE_CONTEXT_H_
