// The messages of rpc Stream: a request whose payload arrives in chunks, and a
// reply whose payload is sent in chunks.
#ifndef QUANTD_PROTO_STREAM_CHUNKS_H_
#define QUANTD_PROTO_STREAM_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/wire.h"
#include "quantd/plan.h"

namespace quantd::wire {

// The first message of a stream, parsed.
struct StreamStart {
  Request request;  // its sources are ranges of the payload
  uint64_t payload_bytes = 0;
  bool reduces = false;  // whether the amax is reduced over several parts
};
// Parses the first message. Errors as from ParseRequest, except that the reply
// may be larger than a message.
absl::StatusOr<StreamStart> ParseStreamStart(
    Slices message, const RequestDefaults& defaults = {});

// Finds the chunk in any later message of a client. Errors are Malformed,
// FieldError, and TooLarge for field "chunk".
absl::StatusOr<Range> ParseChunk(Slices message);

// Parses the client's answer to the maxima of a stream. Malformed or
// FieldError. The values are checked by SettledPlan (kernels/plan/shards.h).
absl::StatusOr<CopyAmax> ParseReducedAmax(Slices message);
// AfterReducedAmax is the FieldError for a message after that answer,
// NoReducedAmax for a stream that ends before it.
absl::Status AfterReducedAmax();
absl::Status NoReducedAmax();

// Checks the chunk [begin, begin + size) of a payload of `payload_bytes`.
// FieldError ("chunk") if it ends beyond the payload.
absl::Status CheckChunk(uint64_t begin, size_t size, uint64_t payload_bytes);
// Checks that a stream ended with all of its payload. FieldError ("payload") if
// not.
absl::Status CheckWhole(uint64_t came, uint64_t payload_bytes);

// Copies a payload that arrives in pieces into a job's staging buffer.
class StreamGather {
 public:
  // Writes the bytes that are not in the payload: gaps, and inputs that the
  // request has as fields. Both arguments must outlive this object.
  StreamGather(const Request& request, absl::Span<std::byte> staging);

  // Copies the next bytes of the payload. The payload must have that many left.
  void Add(Slices message, const Range& chunk);
  uint64_t came() const { return came_; }
  // The number of bytes at the front of the staging buffer that are final.
  size_t settled() const;

 private:
  void Put(std::string_view piece);

  const Request& request_;
  const absl::Span<std::byte> staging_;
  uint64_t came_ = 0;
};

// The last message from a server: the reply to a plan's request, with its
// payload laid out as that of a unary reply.
std::string StreamReplyHead(const Plan& plan, const JobReport& report,
                            std::string_view device,
                            std::string_view request_id);
// The message with the maxima, which a stream that reduces sends before the
// chunks.
std::string MaximaReply(const FoundMaxima& maxima);
// The bytes that precede a chunk in its message, in either direction.
std::string ChunkPrefix(size_t size);

// The first message for `plan`. FieldError ("message") when it is larger than a
// server reads. `amax`: for a Dequantize that has it as a field.
absl::StatusOr<std::string> StreamHead(
    const Plan& plan, size_t payload_bytes,
    std::optional<float> amax = std::nullopt);
// ReducingHead is the first message for a plan that reduces, ReducedAmax the
// answer to its maxima.
absl::StatusOr<std::string> ReducingHead(const Plan& plan,
                                         size_t payload_bytes);
std::string ReducedAmax(const CopyAmax& amax);

// A parsed message from a server. Its contents are not checked.
struct StreamReplyPart {
  Range chunk;                 // empty: no chunk
  std::optional<Reply> reply;  // set in the last message
  std::optional<FoundMaxima> maxima;
};
// Parses a message from a server. Errors as from ParseReply.
absl::StatusOr<StreamReplyPart> ParseStreamReply(Slices message,
                                                 const Plan& asked);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_STREAM_CHUNKS_H_
