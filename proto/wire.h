// From bytes to Plan and from Plan to bytes, for server and client. Who wants
// the messages in between finds them in proto/messages.h.
//
// Requests are parsed where they lie, in the slices the network delivered: the
// payload is never copied here, only found. Everything else is small, capped
// and handed to protobuf.
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

// A message separated into its payload (field 101, wire type 2; the last one
// wins, as protobuf says) and all the rest, as one small string that is
// itself a serialized message. Malformed for bytes whose top-level fields
// protobuf would not accept (what is inside them, parsing the head decides);
// HeadTooLarge for a head over `max_head`.
struct SeparatedMessage {
  std::string head;
  Range payload;
  size_t list_bytes = 0;  // of the head, on the wire; 0 where none is known
};
absl::StatusOr<SeparatedMessage> SeparatePayload(
    Slices message, size_t max_head = kMaxHeadBytes);
// The same of a request, with the caps for fields and lists.
absl::StatusOr<SeparatedMessage> SeparateRequest(Method method, Slices message);

// Whether a message is one whose head has no lists worth counting, and little
// else that could become much. Ranges of lent memory are not held against it.
bool HasShortHead(Slices message);

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
  // Inputs that lie elsewhere than in the message, and outputs that shall.
  LentRanges lent;
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
// length of the payload, so that head + LayOutPayload().size bytes, which is
// plan.output_bytes() where nothing is lent, is a serialized reply message.
std::string ReplyHead(const Plan& plan, const JobReport& report,
                      std::string_view device, std::string_view request_id,
                      const std::vector<MemoryRange>& outputs = {});

// The method that a plan's request asks for.
Method MethodOf(const Plan& plan);

// A request for `plan` but for the payload's bytes: serialized fields, then,
// unless it is empty, the tag and length of the payload. FieldError ("payload")
// when head and payload together are larger than one message can be, and
// ("message") when the head is larger than a server reads. `amax`: of a
// Dequantize that has it as a field.
absl::StatusOr<std::string> RequestHead(
    const Plan& plan, size_t payload, const LentRanges& lent = {},
    std::optional<float> amax = std::nullopt);

// One reply, understood. Nothing in it has been judged.
struct Reply {
  std::vector<TensorSpec> tensors;  // places in the payload
  std::vector<MemoryRange> lent;    // or where they lie instead; of each tensor
  JobReport report;
  std::string device;
  std::string request_id;
  Range payload;
};
// Malformed for what is no reply of that method. With `asked`, whose method it
// then is, UNIMPLEMENTED where the options that the reply echoes lack one of
// the plan's: a server of another version dropped it without a word.
absl::StatusOr<Reply> ParseReply(Method method, Slices message,
                                 const Plan* asked = nullptr);

// A serialized DescribeQuantizeReply.
std::string DescribeReply(const Plan& plan, std::string_view request_id);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_WIRE_H_
