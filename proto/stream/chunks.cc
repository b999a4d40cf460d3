// The messages of streams. The only copy of a payload: from received messages
// to a job's staging buffer.
#include "proto/stream/chunks.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "proto/cursor.h"
#include "proto/messages.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

// The most bytes of unknown fields that a message may hold in addition to its
// chunk.
constexpr size_t kMaxBesideChunk = 4 << 10;

}  // namespace

absl::StatusOr<Range> ParseChunk(Slices message) {
  static_assert(v1::StreamRequest::kChunkFieldNumber << 3 == (kPayloadTag & ~7),
                "a chunk is separated as a payload is");
  const auto separated = SeparatePayload(message, kMaxBesideChunk);
  if (!separated.ok()) return separated.status();
  if (!separated->head.empty()) {
    v1::StreamRequest rest;
    if (!rest.ParseFromString(separated->head)) {
      return Malformed("a field inside it is not valid");
    }
    if (rest.has_reduced_amax()) {
      return FieldError("reduced_amax", "a chunk until all chunks are sent",
                        "reduced_amax");
    }
    if (rest.request_case() != v1::StreamRequest::REQUEST_NOT_SET ||
        rest.payload_bytes() != 0) {
      return FieldError("request",
                        "only a chunk after a stream's first message",
                        "a request or payload_bytes");
    }
  }
  const size_t size = separated->payload.size;
  if (size > kMaxChunkBytes) {
    return TooLargeError("chunk",
                         fmt::format("at most {} bytes", kMaxChunkBytes),
                         fmt::format("{} bytes", size), kMaxChunkBytes);
  }
  if (size == 0) {
    return FieldError("chunk",
                      "1 byte or more; after the last chunk, end the stream",
                      "none");
  }
  return separated->payload;
}

absl::StatusOr<CopyAmax> ParseReducedAmax(Slices message) {
  const auto separated = SeparatePayload(message, kMaxReducedBytes);
  if (!separated.ok()) return separated.status();
  v1::StreamRequest read;
  if (!read.ParseFromString(separated->head)) {
    return Malformed("a field inside it is not valid");
  }
  if (separated->payload.size != 0) {
    return FieldError("chunk",
                      "no chunk after the last, only the answer to the maxima",
                      "one");
  }
  if (read.request_case() != v1::StreamRequest::REQUEST_NOT_SET ||
      read.payload_bytes() != 0) {
    return FieldError("request", "only the answer to the maxima",
                      "a request or payload_bytes");
  }
  if (!read.has_reduced_amax()) return NoReducedAmax();
  return FromProto(read.reduced_amax(), "reduced_amax");
}

absl::Status AfterReducedAmax() {
  return FieldError("reduced_amax", "the end of the stream after reduced_amax",
                    "another message");
}

absl::Status NoReducedAmax() {
  return FieldError("reduced_amax", "an answer to the maxima", "none");
}

absl::Status CheckChunk(uint64_t begin, size_t size, uint64_t payload_bytes) {
  if (begin <= payload_bytes && size <= payload_bytes - begin) {
    return absl::OkStatus();
  }
  return FieldError("chunk",
                    fmt::format("at most {} more bytes, of the {} of "
                                "payload_bytes",
                                payload_bytes - std::min(begin, payload_bytes),
                                payload_bytes),
                    fmt::format("{} bytes", size));
}

absl::Status CheckWhole(uint64_t came, uint64_t payload_bytes) {
  if (came == payload_bytes) return absl::OkStatus();
  return FieldError(
      "payload",
      fmt::format("{} bytes, the value of payload_bytes, before the "
                  "end of the stream",
                  payload_bytes),
      fmt::format("{} bytes", came));
}

StreamGather::StreamGather(const Request& request,
                           absl::Span<std::byte> staging)
    : request_(request), staging_(staging) {
  const std::vector<TensorSpec>& inputs = request_.plan->inputs();
  size_t written = 0;
  const auto fill_to = [&](size_t end) {
    if (end > written) {
      std::memset(staging_.data() + written, 0, end - written);
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    fill_to(inputs[i].offset);
    written = inputs[i].offset + inputs[i].size;
    const std::string& literal = request_.sources[i].literal;
    if (!literal.empty()) {
      std::memcpy(staging_.data() + inputs[i].offset, literal.data(),
                  literal.size());
    }
  }
  fill_to(staging_.size());
}

void StreamGather::Put(std::string_view piece) {
  const std::vector<TensorSpec>& inputs = request_.plan->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Request::Source& source = request_.sources[i];
    if (!source.literal.empty()) continue;
    const uint64_t begin = std::max<uint64_t>(came_, source.range.offset);
    const uint64_t end = std::min<uint64_t>(
        came_ + piece.size(), source.range.offset + source.range.size);
    if (begin >= end) continue;
    std::memcpy(
        staging_.data() + inputs[i].offset + (begin - source.range.offset),
        piece.data() + (begin - came_), end - begin);
  }
  came_ += piece.size();
}

void StreamGather::Add(Slices message, const Range& chunk) {
  Cursor in(message);
  in.Skip(chunk.offset);
  in.Walk(chunk.size, [&](std::string_view piece) { Put(piece); });
}

void Gather(const Request& request, Slices message,
            absl::Span<std::byte> staging) {
  // Sources are ranges of the whole message here.
  const Cursor whole(message);
  StreamGather(request, staging).Add(message, {0, whole.remaining()});
}

size_t StreamGather::settled() const {
  const std::vector<TensorSpec>& inputs = request_.plan->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Request::Source& source = request_.sources[i];
    if (!source.literal.empty()) continue;
    const Range& range = source.range;
    if (came_ >= range.offset + range.size) continue;
    return inputs[i].offset + (came_ > range.offset ? came_ - range.offset : 0);
  }
  return staging_.size();
}

std::string MaximaReply(const FoundMaxima& found) {
  v1::StreamReply reply;
  v1::Maxima* const maxima = reply.mutable_maxima();
  maxima->mutable_rowwise()->Assign(found.amax.rowwise.begin(),
                                    found.amax.rowwise.end());
  maxima->mutable_columnwise()->Assign(found.amax.columnwise.begin(),
                                       found.amax.columnwise.end());
  maxima->set_saw_nan(found.saw_nan);
  maxima->set_saw_inf(found.saw_inf);
  return reply.SerializeAsString();
}

std::string ReducedAmax(const CopyAmax& amax) {
  v1::StreamRequest answer;
  *answer.mutable_reduced_amax() = ToProto(amax);
  return answer.SerializeAsString();
}

std::string ChunkPrefix(size_t size) {
  std::string prefix;
  AppendPayloadPrefix(size, &prefix);
  return prefix;
}

}  // namespace quantd::wire
