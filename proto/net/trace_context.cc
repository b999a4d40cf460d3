#include "proto/net/trace_context.h"

#include <algorithm>

namespace quantd::wire {
namespace {

// The format of version 00: its length, and the positions of its dashes and
// parts.
constexpr size_t kLength = 55;
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = 36;
constexpr size_t kFlagsAt = 53;

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

template <typename Id>
bool ReadId(std::string_view text, Id* id) {
  const std::string_view digits = text.substr(0, id->size());
  if (!IsHex(digits)) return false;
  std::copy(digits.begin(), digits.end(), id->begin());
  return digits.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  // Metadata may be long, but no version's value is longer than this.
  constexpr size_t kMost = 256;
  if (text.size() < kLength || text.size() > kMost) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  if (!IsHex(version) || version == "ff") return std::nullopt;
  for (const size_t dash : {kTraceAt - 1, kSpanAt - 1, kFlagsAt - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) {
    return std::nullopt;
  }
  TraceContext context;
  const std::string_view flags = text.substr(kFlagsAt, 2);
  if (!ReadId(text.substr(kTraceAt), &context.trace_id) ||
      !ReadId(text.substr(kSpanAt), &context.span_id) || !IsHex(flags)) {
    return std::nullopt;
  }
  return context;
}

}  // namespace quantd::wire
