// One message, twice: flat through protobuf, in slices through proto/wire.h.
// Both must say the same.
#ifndef QUANTD_TESTS_FUZZ_WIRE_CHECK_H_
#define QUANTD_TESTS_FUZZ_WIRE_CHECK_H_

#include <string>
#include <string_view>

#include "proto/wire.h"

namespace quantd::wire {

// The four requests, in the order of kTensorMethods; QuantizeReply, which has
// strings and is what a client splits; and StreamRequest.
inline constexpr int kMessageTypes = 6;
inline constexpr int kReplyType = 4;
inline constexpr int kStreamType = 5;

struct Verdict {
  std::string difference;  // empty: both agree
  bool legal = false;      // protobuf accepts the bytes
  bool planned = false;    // ... and ParseRequest makes a plan of them
  bool reduces = false;    // ... whose amax is reduced
  bool answers = false;    // they are the answer to its maxima
};

// `message` is what `slices` hold, and is at most kMaxHeadBytes long, so that
// no cap of ours may speak. For a request also: ParseRequest says the same of
// the slices as of the flat bytes, and Gather brings the same bytes. For one of
// a stream the same as a first message, as a chunk and as an answer to maxima.
Verdict CheckMessage(int type, const std::string& message, Slices slices);

}  // namespace quantd::wire

#endif  // QUANTD_TESTS_FUZZ_WIRE_CHECK_H_
