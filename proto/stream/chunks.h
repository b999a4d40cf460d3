// The messages of rpc Stream: a request whose payload comes, and a reply whose
// payload goes, in chunks.
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

// The first message of a stream, understood.
struct StreamStart {
  Request request;  // places are those in the payload
  uint64_t payload_bytes = 0;
  bool reduces = false;  // its amax, which its plan would find
};
// Errors as from ParseRequest. Its reply may be larger than a message.
absl::StatusOr<StreamStart> ParseStreamStart(
    Slices message, const RequestDefaults& defaults = {});

// Where the chunk of any later message of a client's lies in it. Malformed or
// FieldError; TooLarge of field "chunk".
absl::StatusOr<Range> ParseChunk(Slices message);

// What a client's message is that answers the maxima of a stream. Malformed or
// FieldError. The values are for SettledPlan (kernels/plan/shards.h) to
// judge.
absl::StatusOr<CopyAmax> ParseReducedAmax(Slices message);
// FieldError for what comes after it, and for a stream that ends before.
absl::Status AfterReducedAmax();
absl::Status NoReducedAmax();

// The chunk [begin, begin + size) of a payload of so many bytes. FieldError
// ("chunk") for one that ends behind it.
absl::Status CheckChunk(uint64_t begin, size_t size, uint64_t payload_bytes);
// The stream ended after so many. FieldError ("payload") unless that is all.
absl::Status CheckWhole(uint64_t came, uint64_t payload_bytes);

// Brings a payload that comes in pieces to its places in a job's staging.
class StreamGather {
 public:
  // Writes what does not come: gaps, and what the request has as fields. Both
  // must outlive it.
  StreamGather(const Request& request, absl::Span<std::byte> staging);

  // The next bytes of the payload, which has as many left.
  void Add(Slices message, const Range& chunk);
  uint64_t came() const { return came_; }
  // Bytes at the front of the staging that no later piece changes.
  size_t settled() const;

 private:
  void Put(std::string_view piece);

  const Request& request_;
  const absl::Span<std::byte> staging_;
  uint64_t came_ = 0;
};

// The last message of a server's: the reply of a plan's request, whose payload
// is laid out as that of a unary reply.
std::string StreamReplyHead(const Plan& plan, const JobReport& report,
                            std::string_view device,
                            std::string_view request_id);
// The message before its chunks, of a stream that reduces.
std::string MaximaReply(const FoundMaxima& maxima);
// What goes before the bytes of a chunk, either way.
std::string ChunkPrefix(size_t size);

// The first message for `plan`. FieldError ("message") when it is larger than
// a server reads. `amax`: of a Dequantize that has it as a field.
absl::StatusOr<std::string> StreamHead(
    const Plan& plan, size_t payload_bytes,
    std::optional<float> amax = std::nullopt);
// The same of a plan that reduces, and later the answer to its maxima.
absl::StatusOr<std::string> ReducingHead(const Plan& plan,
                                         size_t payload_bytes);
std::string ReducedAmax(const CopyAmax& amax);

// One message of a server's, understood. Nothing in it has been judged.
struct StreamReplyPart {
  Range chunk;                 // empty: it has none
  std::optional<Reply> reply;  // it is the last one
  std::optional<FoundMaxima> maxima;
};
// Errors as from ParseReply.
absl::StatusOr<StreamReplyPart> ParseStreamReply(Slices message,
                                                 const Plan& asked);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_STREAM_CHUNKS_H_
