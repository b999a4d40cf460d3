// Limits on the size of quantd.v1 messages, on the wire and in memory.
#ifndef QUANTD_PROTO_LIMITS_H_
#define QUANTD_PROTO_LIMITS_H_

#include <algorithm>
#include <cstddef>

#include "kernels/plan/shards.h"
#include "quantd/plan.h"

namespace quantd::wire {

// The largest message: protobuf and gRPC allow 2 GiB, less some bytes for
// framing.
inline constexpr size_t kMaxMessageBytes = (size_t{2} << 30) - (64 << 10);

// Limits below those of protobuf. The head of a request is everything except
// the payload. It may have kMaxHeadBytes of fields and, in addition, lists of
// numbers that take kMaxListBytes in memory: 4 bytes for an amax, a scale or a
// value of a history, 8 bytes for the rows or the offset of a group. Only
// packed lists count as lists, because parsing hardly enlarges them, while
// other fields may take fifty times as much memory as on the wire.
inline constexpr size_t kMaxHeadBytes = 256 << 10;
inline constexpr size_t kMaxListBytes = 4 << 20;
// The largest legal head on the wire, where a number of 8 bytes takes up to 10.
inline constexpr size_t kMaxRequestHeadBytes =
    kMaxHeadBytes + kMaxListBytes / 8 * 10;
// The largest head of a reply. It has offsets for every group of every tensor
// and echoes the request's lists, in which one amax may become two.
inline constexpr size_t kMaxReplyHeadBytes = 10 << 20;
inline constexpr int kMaxShapeEntries = kMaxRank;
// The largest payload of a reply; protobuf and gRPC allow messages up to 2 GiB.
inline constexpr size_t kMaxReplyPayloadBytes =
    (size_t{1} << 31) - kMaxReplyHeadBytes;

// The largest chunk of a stream that is accepted, and the largest that is sent;
// larger chunks are no faster.
inline constexpr size_t kMaxChunkBytes = size_t{16} << 20;
inline constexpr size_t kChunkBytes = size_t{1} << 20;

// The largest answer to a stream's maxima: its values and some unknown fields.
inline constexpr size_t kMaxReducedBytes =
    kMostReduced * sizeof(float) + (4 << 10);

// An upper bound of the memory that a request takes until the head of its reply
// is serialized, given the size of the request's head on the wire. It covers
// messages, copies of the lists, the plan and its groups. head_memory_test
// measured 66 bytes for each byte of a field, 41 for each byte of a list of
// small integers, 7 for each byte of other lists, and 311 for each group; the
// factors below are a little larger.
constexpr size_t HeadMemory(size_t head) {
  constexpr size_t kIntegers = kMaxListBytes / 8;  // one byte each
  const size_t fields = std::min(head, kMaxHeadBytes);
  const size_t integers = std::min(head - fields, kIntegers);
  return (8 << 10) + 320 * std::min(head, kMaxGroups) + 72 * fields +
         48 * integers + 8 * (head - fields - integers);
}
inline constexpr size_t kMaxHeadMemory = HeadMemory(kMaxRequestHeadBytes);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_LIMITS_H_
