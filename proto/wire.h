// From bytes to Plan and from Plan to bytes: the only place that knows both
// the messages of quantd.proto and the types of kernels/.
//
// Requests are parsed where they lie, in the slices the network delivered: the
// payload is never copied here, only found. Everything else is small, capped
// and handed to protobuf.
#ifndef QUANTD_PROTO_WIRE_H_
#define QUANTD_PROTO_WIRE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/backend.h"
#include "kernels/plan/plan.h"
#include "quantd.pb.h"

namespace quantd::wire {

// Caps of our own, below what protobuf would accept. A request's head is all
// but the payload. It may have kMaxHeadBytes of fields and, beside these, lists
// of numbers that take kMaxListBytes in memory: 4 bytes an amax, a scale or a
// value of a history, 8 bytes the rows or the offset of a group. Only packed
// lists are such; a parser makes little more of them than they are, while
// fields may become fifty times as large.
inline constexpr size_t kMaxHeadBytes = 256 << 10;
inline constexpr size_t kMaxListBytes = 4 << 20;
// What a legal head has on the wire at most: numbers of 8 bytes take up to 10.
inline constexpr size_t kMaxRequestHeadBytes =
    kMaxHeadBytes + kMaxListBytes / 8 * 10;
// All but the payload of a reply: offsets for every group of every tensor, and
// the echo of the lists, where one amax may have become two.
inline constexpr size_t kMaxReplyHeadBytes = 10 << 20;
inline constexpr int kMaxShapeEntries = kMaxRank;
// What a reply may carry: protobuf and gRPC end at 2 GiB.
inline constexpr size_t kMaxReplyPayloadBytes =
    (size_t{1} << 31) - kMaxReplyHeadBytes;

enum class Method { kQuantize, kDequantize, kRhtAmax, kApplyRht };
inline constexpr Method kMethods[] = {Method::kQuantize, Method::kDequantize,
                                      Method::kRhtAmax, Method::kApplyRht};
std::string_view Name(Method m);  // "Quantize"

// Status payload of a message that protobuf would not accept, as opposed to
// one that asks for something illegal (which is a FieldError).
inline constexpr char kMalformedUrl[] = "quantd/malformed";
absl::Status Malformed(std::string_view why);
bool IsMalformed(const absl::Status& status);

// A message that arrived in pieces. Views; the caller keeps the bytes.
using Slices = absl::Span<const std::string_view>;

// A byte range of the concatenated slices.
struct Range {
  size_t offset = 0;
  size_t size = 0;
};

// A message split into its payload (field 101, wire type 2; the last one
// wins, as protobuf says) and all the rest, as one small string that is
// itself a serialized message. Malformed for bytes whose top-level fields
// protobuf would not accept (what is inside them, parsing the head decides);
// HeadTooLarge for a head over `max_head`.
struct Split {
  std::string head;
  Range payload;
  size_t list_bytes = 0;  // of the head, on the wire; 0 where none is known
};
absl::StatusOr<Split> SplitPayload(Slices message,
                                   size_t max_head = kMaxHeadBytes);
// The same of a request, with the caps for fields and lists.
absl::StatusOr<Split> SplitRequest(Method method, Slices message);

// What a request whose head has so many bytes on the wire may take in memory at
// most, from its parsing until its reply's head is made: messages, copies of
// the lists, the plan and its groups. Measured (head_memory_test), with room:
// 66 bytes for one of a field, 41 for one of a list of small integers, 7 for
// one of other lists, and 311 for a group.
constexpr size_t HeadMemory(size_t head) {
  constexpr size_t kIntegers = kMaxListBytes / 8;  // one byte each
  const size_t fields = std::min(head, kMaxHeadBytes);
  const size_t integers = std::min(head - fields, kIntegers);
  return (8 << 10) + 320 * std::min(head, kMaxGroups) + 72 * fields +
         48 * integers + 8 * (head - fields - integers);
}
inline constexpr size_t kMaxHeadMemory = HeadMemory(kMaxRequestHeadBytes);

// More beside the payload than a request may have: TooLarge of field "message".
absl::Status HeadTooLarge(size_t limit);

// One request, understood: what to compute and which bytes to feed.
struct Request {
  std::shared_ptr<const Plan> plan;
  // For each of plan->inputs(), where its bytes lie in the message. A source
  // with `literal` set feeds those bytes instead (an amax given as a field).
  struct Source {
    Range range;
    std::string literal;
  };
  std::vector<Source> sources;
};
// What a server makes of requests that leave it open.
struct RequestDefaults {
  float amax_estimation_scale = 0;  // where there is an amax to estimate
};

// Malformed or FieldError. Allocates in proportion to the head at most.
absl::StatusOr<Request> ParseRequest(Method method, Slices message,
                                     const RequestDefaults& defaults = {});

// The plan of a QuantizeRequest whose payload, if it has one, does not matter.
// Errors as from ParseRequest.
absl::StatusOr<std::shared_ptr<const Plan>> ParseDescribeRequest(
    Slices message, const RequestDefaults& defaults = {});

// Copies every source to its place in the job's staging (plan input offsets),
// zeroing the gaps. One pass over the slices, `message` as it was parsed.
void Gather(const Request& request, Slices message,
            absl::Span<std::byte> staging);

// The reply but for the payload's bytes: serialized fields, then the tag and
// length of the payload, so that head + plan.output_bytes() bytes is a
// serialized reply message.
std::string ReplyHead(const Plan& plan, const JobReport& report,
                      std::string_view device, std::string_view request_id);

// A serialized DescribeQuantizeReply.
std::string DescribeReply(const Plan& plan, std::string_view request_id);

// Enum bridges. Unknown numbers come back as the value 0.
v1::DType ToProto(DType t);
v1::Layout ToProto(Layout l);
v1::TensorKind ToProto(TensorKind k);
v1::Usage ToProto(Usage u);
v1::Format ToProto(Format f);
v1::NonFinite ToProto(NonFinite n);
v1::Rounding ToProto(Rounding r);
v1::ScaleRule ToProto(ScaleRule r);
v1::FourOverSix ToProto(FourOverSix f);
v1::AmaxDomain ToProto(AmaxDomain d);
v1::HistoryRule ToProto(HistoryRule r);
DType FromProto(v1::DType t);
Layout FromProto(v1::Layout l);
Format FromProto(v1::Format f);
TensorKind FromProto(v1::TensorKind k);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_WIRE_H_
