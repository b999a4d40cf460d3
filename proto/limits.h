// Limits on the size of quantd.v1 messages, on the wire and in memory.
#ifndef QUANTD_PROTO_LIMITS_H_
#define QUANTD_PROTO_LIMITS_H_

#include <algorithm>
#include <cstddef>

#include "kernels/plan/shards.h"
#include "quantd/plan.h"

namespace quantd::wire {

// What protobuf and gRPC allow in one message, 2 GiB, less room for framing.
inline constexpr size_t kMaxMessageBytes = (size_t{2} << 30) - (64 << 10);

// Caps of our own, below what protobuf would accept. The head of a request is
// everything but the payload. It may have kMaxHeadBytes of fields and, in
// addition, lists of numbers that take kMaxListBytes in memory: 4 bytes for an
// amax, a scale or a value of a history, 8 bytes for the rows or the offset of
// a group. Only packed lists count as lists: they take about as much memory
// parsed as on the wire, while fields may become fifty times as large.
inline constexpr size_t kMaxHeadBytes = 256 << 10;
inline constexpr size_t kMaxListBytes = 4 << 20;
// The largest legal head on the wire: numbers of 8 bytes take up to 10.
inline constexpr size_t kMaxRequestHeadBytes =
    kMaxHeadBytes + kMaxListBytes / 8 * 10;
// The largest head of a reply: offsets for every group of every tensor, and the
// echo of the lists, where one amax may have become two.
inline constexpr size_t kMaxReplyHeadBytes = 10 << 20;
inline constexpr int kMaxShapeEntries = kMaxRank;
// The largest payload of a reply: protobuf and gRPC end at 2 GiB.
inline constexpr size_t kMaxReplyPayloadBytes =
    (size_t{1} << 31) - kMaxReplyHeadBytes;

// The largest chunk of a stream that is accepted, and the largest that we send:
// larger ones are no faster.
inline constexpr size_t kMaxChunkBytes = size_t{16} << 20;
inline constexpr size_t kChunkBytes = size_t{1} << 20;

// The size of the answer to a stream's maxima: its values, and fields that a
// server does not know.
inline constexpr size_t kMaxReducedBytes =
    kMostReduced * sizeof(float) + (4 << 10);

// An upper bound of the memory that a request takes from its parsing until its
// reply's head is made, given the size of its head on the wire: messages,
// copies of the lists, the plan and its groups. Measured by head_memory_test,
// with a margin: 66 bytes for a byte of a field, 41 for one of a list of small
// integers, 7 for one of other lists, and 311 for a group.
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
