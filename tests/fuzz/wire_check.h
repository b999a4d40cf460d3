// Parses a message twice: whole by protobuf, and in slices by proto/wire.h.
// Both results must agree.
#ifndef QUANTD_TESTS_FUZZ_WIRE_CHECK_H_
#define QUANTD_TESTS_FUZZ_WIRE_CHECK_H_

#include <string>
#include <string_view>

#include "proto/wire.h"

namespace quantd::wire {

// The message types: four requests in the order of kTensorMethods;
// QuantizeReply, which has strings and which a client splits; and
// StreamRequest.
inline constexpr int kMessageTypes = 6;
inline constexpr int kStreamType = 5;

// Returns the difference, or "" if both agree. `message` has the bytes of
// `slices`, and no more than kMaxHeadBytes, which only quantd limits. For a
// request, ParseRequest and Gather must also give the same results for slices
// and contiguous bytes. A StreamRequest is also checked as a first message, as
// a chunk and as a reduced amax.
std::string CheckMessage(int type, const std::string& message, Slices slices);

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_FUZZ_WIRE_CHECK_H_
