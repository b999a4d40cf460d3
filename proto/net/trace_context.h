// The trace that a call belongs to, in the form that W3C Trace Context gives it
// in the metadata `traceparent`: "00-<trace id>-<span id>-<flags>".
//
// The server makes no calls of its own, so it only logs the trace. It does not
// read `tracestate`, which only programs that forward it need.
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

// Reads a traceparent. nullopt for values that the recommendation says to
// ignore: malformed text, ids of zeros, version ff, and version 00 with
// additional parts. In later versions only the parts of version 00 are read.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_NET_TRACE_CONTEXT_H_
