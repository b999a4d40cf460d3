// Parses requests into Plans and serializes replies, for the server; serializes
// requests and parses replies, for the client. proto/messages.h converts single
// messages.
//
// Requests are parsed in place, in the slices that the network delivered: their
// payload is located but not copied. All other fields are small, have a size
// limit, and are parsed by protobuf.
#ifndef QUANTD_PROTO_WIRE_H_
#define QUANTD_PROTO_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/backend.h"
#include "proto/limits.h"
#include "proto/memory/ranges.h"
#include "proto/methods.h"
#include "quantd/plan.h"

namespace quantd::wire {

// The URL of the status payload that marks a message which protobuf does not
// accept. A message with illegal values gets a FieldError instead.
inline constexpr char kMalformedUrl[] = "quantd/malformed";
absl::Status Malformed(std::string_view why);
bool IsMalformed(const absl::Status& status);

// Views of the pieces of a message; the caller owns the bytes.
using Slices = absl::Span<const std::string_view>;

// A byte range of the concatenated slices.
struct Range {
  size_t offset = 0;
  size_t size = 0;
};

// A message separated into its payload (field 101, wire type 2; the last one
// wins, as in protobuf) and its head, a small serialized message of all other
// fields. SeparatePayload returns Malformed for bytes whose top-level fields
// protobuf would not accept, and HeadTooLarge for a head over `max_head`. The
// content of fields is checked when the head is parsed.
struct SeparatedMessage {
  std::string head;
  Range payload;
  size_t list_bytes = 0;  // in the head, on the wire; 0 if not counted
};
absl::StatusOr<SeparatedMessage> SeparatePayload(
    Slices message, size_t max_head = kMaxHeadBytes);
// Separates a request, with the limits for fields and lists.
absl::StatusOr<SeparatedMessage> SeparateRequest(Method method, Slices message);

// Whether a message has a head that takes little memory when it is parsed: only
// short lists, and few other fields. Ranges of lent memory are not counted.
bool HasShortHead(Slices message);

// The error for a request with too many bytes outside its payload: TooLarge for
// field "message".
absl::Status HeadTooLarge(size_t limit);

// A parsed request: its plan and the sources of its input bytes.
struct Request {
  std::shared_ptr<const Plan> plan;
  // The range in the message of each of plan->inputs(). If `literal` is set,
  // its bytes are used instead (an amax given as a field).
  struct Source {
    Range range;
    std::string literal;
  };
  std::vector<Source> sources;
  // Inputs and outputs in shared memory.
  LentRanges lent;
};
// The server's defaults for options that a request does not set.
struct RequestDefaults {
  float amax_estimation_scale = 0;  // used if there is an amax to estimate
};

// Parses a request. Malformed or FieldError. Allocates at most in proportion to
// the head.
absl::StatusOr<Request> ParseRequest(Method method, Slices message,
                                     const RequestDefaults& defaults = {});

// The plan of a QuantizeRequest; its payload, if it has one, is ignored. Errors
// as from ParseRequest, but the limit of the reply's payload is
// `max_reply_payload`.
absl::StatusOr<std::shared_ptr<const Plan>> ParseDescribeRequest(
    Slices message, const RequestDefaults& defaults = {},
    size_t max_reply_payload = kMaxReplyPayloadBytes);

// Copies every source to its offset in the job's staging buffer (the offsets of
// plan.inputs()) and zeroes the gaps, in one pass over the slices. `message` is
// the message that was parsed. Defined in proto/stream/chunks.cc.
void Gather(const Request& request, Slices message,
            absl::Span<std::byte> staging);

// The reply without the payload's bytes: serialized fields, then the tag and
// length of the payload. Head + LayOutPayload().size bytes (plan.output_bytes()
// if nothing is lent) form a serialized reply.
std::string ReplyHead(const Plan& plan, const JobReport& report,
                      std::string_view device, std::string_view request_id,
                      const std::vector<MemoryRange>& outputs = {});

// The method that the plan is for.
Method MethodOf(const Plan& plan);

// The request for `plan` without the payload's bytes: serialized fields, then,
// unless it is empty, the tag and length of the payload. FieldError ("payload")
// when head and payload together are larger than one message can be, and
// ("message") when the head is larger than a server reads. `amax`: for a
// Dequantize that has it as a field.
absl::StatusOr<std::string> RequestHead(
    const Plan& plan, size_t payload, const LentRanges& lent = {},
    std::optional<float> amax = std::nullopt);

// A parsed reply. Its contents are not checked.
struct Reply {
  std::vector<TensorSpec> tensors;  // offsets are those in the payload
  std::vector<MemoryRange> lent;    // for each tensor its shared memory, if any
  JobReport report;
  std::string device;
  std::string request_id;
  Range payload;
};
// Parses a reply. Malformed for bytes that are not a reply of that method. With
// `asked`, a plan of that method, UNIMPLEMENTED if the reply does not echo one
// of the plan's options, because an older server ignored it silently.
absl::StatusOr<Reply> ParseReply(Method method, Slices message,
                                 const Plan* asked = nullptr);

// A serialized DescribeQuantizeReply.
std::string DescribeReply(const Plan& plan, std::string_view request_id);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_WIRE_H_
