#include "tests/fuzz/wire_check.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/answers.h"
#include "proto/messages.h"
#include "proto/stream/chunks.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

// Returns field 101, which has two names.
template <typename Message>
const std::string& PayloadOf(const Message& message) {
  return message.payload();
}
const std::string& PayloadOf(const v1::StreamRequest& message) {
  return message.chunk();
}
template <typename Message>
void ClearPayload(Message* message) {
  message->clear_payload();
}
void ClearPayload(v1::StreamRequest* message) { message->clear_chunk(); }

// Compares the fields, including unknown ones, and the payload of the slices
// with `expected`.
template <typename Message>
std::string CompareSeparated(const SeparatedMessage& separated,
                             const std::string& flat, Message* head,
                             Message* expected) {
  if (separated.payload.offset > flat.size() ||
      separated.payload.size > flat.size() - separated.payload.offset) {
    return "the payload is outside the message";
  }
  if (!PayloadOf(*head).empty()) return "the head has a payload";
  const std::string_view payload = std::string_view(flat).substr(
      separated.payload.offset, separated.payload.size);
  if (payload != PayloadOf(*expected)) return "payloads differ";
  ClearPayload(expected);
  if (head->SerializeAsString() != expected->SerializeAsString()) {
    return "fields differ:\n" + head->DebugString() + "---\n" +
           expected->DebugString();
  }
  return "";
}

// Returns a request and its plan as bytes.
std::string Fingerprint(const Request& request) {
  std::string out = ReplyHead(*request.plan, {}, "", "", request.lent.outputs);
  for (const MemoryRange& range : request.lent.inputs) {
    out.append(range.region).append(std::to_string(range.offset));
  }
  for (size_t i = 0; i < request.sources.size(); ++i) {
    const Request::Source& source = request.sources[i];
    for (size_t number : {request.plan->inputs()[i].offset, source.range.offset,
                          source.range.size}) {
      out.append(std::to_string(number)).append(" ");
    }
    out.append(source.literal);
  }
  return out;
}

// Checks that ranges of shared memory have the sizes of the plan's tensors and
// are aligned to elements.
std::string CheckLent(const std::vector<MemoryRange>& ranges,
                      const std::vector<TensorSpec>& specs) {
  if (!ranges.empty() && ranges.size() != specs.size()) return "ranges missing";
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i]) continue;
    if (ranges[i].size != specs[i].size ||
        ranges[i].offset % SizeOf(specs[i].dtype) != 0) {
      return "a range that does not fit the plan";
    }
  }
  return "";
}

std::string CompareGather(const Request& request, const std::string& flat,
                          Slices slices) {
  const Plan& plan = *request.plan;
  if (request.sources.size() != plan.inputs().size()) return "sources missing";
  for (const auto& [ranges, specs] :
       {std::pair(request.lent.inputs, plan.inputs()),
        std::pair(request.lent.outputs, plan.outputs())}) {
    if (const std::string wrong = CheckLent(ranges, specs); !wrong.empty()) {
      return wrong;
    }
  }
  if (!request.lent.inputs.empty()) return "";
  std::string expected(plan.input_bytes(), '\0');
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    const Request::Source& source = request.sources[i];
    const TensorSpec& input = plan.inputs()[i];
    const size_t size =
        source.literal.empty() ? source.range.size : source.literal.size();
    if (size != input.size) return "a source of the wrong size";
    if (source.literal.empty()) {
      if (source.range.offset > flat.size() ||
          source.range.size > flat.size() - source.range.offset) {
        return "a source outside the message";
      }
      std::copy_n(flat.data() + source.range.offset, size,
                  expected.data() + input.offset);
    } else {
      std::copy_n(source.literal.data(), size, expected.data() + input.offset);
    }
  }
  std::string staging(plan.input_bytes(), '\xAA');
  Gather(request, slices,
         absl::MakeSpan(reinterpret_cast<std::byte*>(staging.data()),
                        staging.size()));
  return staging == expected ? "" : "gathered bytes differ";
}

// Compares the errors of a refused message.
std::string CompareRefusals(const absl::Status& one, const absl::Status& cut,
                            bool legal) {
  if (one != cut) return "a cut changes the error";
  if (IsMalformed(one)) return legal ? "wrongly called " + one.ToString() : "";
  return GetFieldViolation(one) ? ""
                                : "an error without a field: " + one.ToString();
}

// Checks the message as a DescribeQuantize request.
std::string CheckDescription(Slices slices, bool legal,
                             const absl::StatusOr<Request>& of) {
  // A server's default does not make a request illegal.
  const auto made =
      ParseDescribeRequest(slices, {.amax_estimation_scale = 0.5f});
  if (!made.ok()) {
    // With all outputs in shared memory, a reply may exceed the size of a
    // message.
    if (of.ok() && of->lent.outputs.empty()) {
      return "a legal request that cannot be described: " +
             made.status().ToString();
    }
    return CompareRefusals(made.status(), made.status(), legal);
  }
  if (!legal) return "a description of a malformed message";
  return !of.ok() || (*made)->output_bytes() == of->plan->output_bytes()
             ? ""
             : "description and plan differ";
}

// Compares the answers of the methods without a payload.
std::string CompareAnswers(const std::string& flat, Slices slices) {
  const std::string_view whole = flat;
  Facts facts;
  facts.info = [] { return v1::GetServerInfoReply(); };
  for (const MethodSpec& row : kAnswerMethods) {
    const auto one = AnswerRequest(row.method, {&whole, 1}, facts, "id");
    const auto cut = AnswerRequest(row.method, slices, facts, "id");
    if (one.ok() != cut.ok()) return "a cut changes whether it is answered";
    if (one.ok() && one->reply != cut->reply) return "a cut changes an answer";
    if (one.ok()) continue;
    std::string wrong = CompareRefusals(one.status(), cut.status(), false);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Whether a head is short, or too long for a limit, must not depend on cuts.
std::string CompareHeads(const std::string& flat, Slices slices) {
  constexpr size_t kCap = 48;
  const std::string_view whole = flat;
  const Slices one = absl::MakeSpan(&whole, 1);
  if (HasShortHead(one) != HasShortHead(slices)) {
    return "a cut changes whether a head is short";
  }
  return SeparatePayload(one, kCap).status() ==
                 SeparatePayload(slices, kCap).status()
             ? ""
             : "a cut changes whether a head exceeds a limit";
}

std::string CompareRequests(Method method, const std::string& flat,
                            Slices slices, bool legal) {
  const std::string_view whole = flat;
  const auto one = ParseRequest(method, absl::MakeSpan(&whole, 1));
  const auto cut = ParseRequest(method, slices);
  if (one.ok() != cut.ok()) return "a cut changes whether a plan is made";
  if (method == Method::kQuantize) {
    const std::string wrong = CheckDescription(slices, legal, one);
    if (!wrong.empty()) return wrong;
  }
  if (!one.ok()) {
    if (one.status() != cut.status()) return "a cut changes the error";
    const bool malformed = IsMalformed(one.status());
    if (malformed == legal) {
      return "wrongly called " + one.status().ToString();
    }
    if (!malformed && !GetFieldViolation(one.status())) {
      return "an error without a field: " + one.status().ToString();
    }
    return "";
  }
  if (!legal) return "a plan for a malformed message";
  if (Fingerprint(*one) != Fingerprint(*cut)) return "a cut changes the plan";
  return CompareGather(*cut, flat, slices);
}

// Compares a payload gathered from chunks, which end where the message's slices
// end, with one gathered from copies.
std::string CompareStreamGather(const StreamStart& start, Slices slices) {
  const Plan& plan = *start.request.plan;
  std::string payload(start.payload_bytes, '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i * 37 + i / 256);
  }
  const auto bytes = [](std::string& text) {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()),
                          text.size());
  };
  std::string expected(plan.input_bytes(), '\0');
  const std::string_view whole = payload;
  Gather(start.request, absl::MakeSpan(&whole, 1), bytes(expected));
  std::string staging(plan.input_bytes(), '\xAA');
  StreamGather gather(start.request, bytes(staging));
  for (size_t i = 0; gather.came() < payload.size(); ++i) {
    const size_t wanted = slices.empty() ? 7 : slices[i % slices.size()].size();
    const size_t n = std::min<size_t>(payload.size() - gather.came(),
                                      std::max<size_t>(wanted, 1));
    const std::string_view chunk = whole.substr(gather.came(), n);
    gather.Add(absl::MakeSpan(&chunk, 1), {0, n});
  }
  if (gather.settled() != staging.size()) return "some bytes are not gathered";
  return staging == expected ? "" : "bytes gathered from chunks differ";
}

// Checks that a plan with a reduced amax accepts an amax within its memory.
std::string CheckReducing(const Plan& plan) {
  const auto maxima = MaximaPlan(plan);
  if (!maxima.ok()) return "a plan with a reduced amax has no plan for maxima";
  if (maxima->output_bytes() > plan.output_bytes() ||
      maxima->scratch_bytes() > plan.scratch_bytes()) {
    return "maxima that need more memory than the plan";
  }
  const CopyAmax none = NoMaxima(plan);
  if (none.rowwise.size() + none.columnwise.size() > kMostReduced) {
    return "more maxima than a message may have";
  }
  const auto settled = SettledPlan(plan, none);
  if (!settled.ok())
    return "a plan with a reduced amax does not accept an amax";
  if (settled->output_bytes() != plan.output_bytes() ||
      settled->scratch_bytes() > plan.scratch_bytes()) {
    return "the plan needs more memory with an amax";
  }
  return "";
}

// Compares the message as a reduced amax of a stream.
std::string CompareReducedAmax(const std::string& flat, Slices slices,
                               bool legal) {
  const std::string_view whole = flat;
  const auto one = ParseReducedAmax(absl::MakeSpan(&whole, 1));
  const auto cut = ParseReducedAmax(slices);
  if (one.ok() != cut.ok()) return "a cut changes whether it is a reduced amax";
  if (!one.ok()) {
    return CompareRefusals(one.status(), cut.status(), legal);
  }
  if (!legal) return "a reduced amax from a malformed message";
  if (one->rowwise.size() != cut->rowwise.size() ||
      one->columnwise.size() != cut->columnwise.size()) {
    return "a cut changes the reduced amax";
  }
  return "";
}

std::string CompareStreams(const std::string& flat, Slices slices, bool legal) {
  const std::string_view whole = flat;
  const auto one = ParseStreamStart(absl::MakeSpan(&whole, 1));
  const auto cut = ParseStreamStart(slices);
  if (one.ok() != cut.ok()) return "a cut changes whether a stream begins";
  if (!one.ok()) {
    const std::string wrong =
        CompareRefusals(one.status(), cut.status(), legal);
    if (!wrong.empty()) return wrong;
  } else {
    if (!legal) return "a plan for a malformed message";
    if (Fingerprint(one->request) != Fingerprint(cut->request) ||
        one->payload_bytes != cut->payload_bytes ||
        one->reduces != cut->reduces) {
      return "a cut changes the plan";
    }
    if (one->reduces) {
      const std::string wrong = CheckReducing(*one->request.plan);
      if (!wrong.empty()) return wrong;
    }
    // Ranges may leave gaps of any size.
    if (cut->payload_bytes < (size_t{1} << 20)) {
      const std::string wrong = CompareStreamGather(*cut, slices);
      if (!wrong.empty()) return wrong;
    }
  }
  if (std::string wrong = CompareReducedAmax(flat, slices, legal);
      !wrong.empty()) {
    return wrong;
  }
  const auto chunk = ParseChunk(absl::MakeSpan(&whole, 1));
  const auto pieces = ParseChunk(slices);
  if (chunk.ok() != pieces.ok()) return "a cut changes whether it is a chunk";
  if (!chunk.ok()) {
    return CompareRefusals(chunk.status(), pieces.status(), legal);
  }
  if (!legal) return "a chunk from a malformed message";
  v1::StreamRequest expected;
  expected.ParseFromString(flat);
  if (chunk->offset != pieces->offset || chunk->size != pieces->size) {
    return "a cut changes the chunk";
  }
  return whole.substr(chunk->offset, chunk->size) == expected.chunk()
             ? ""
             : "chunks differ";
}

// Compares a message type; `method` is given for requests.
template <typename Message>
std::string Compare(const std::string& flat, Slices slices,
                    std::optional<Method> method) {
  Message expected;
  const bool legal = expected.ParseFromString(flat);
  const auto separated =
      method ? SeparateRequest(*method, slices) : SeparatePayload(slices);
  for (const auto compare : {CompareHeads, CompareAnswers}) {
    if (std::string wrong = compare(flat, slices); !wrong.empty()) return wrong;
  }
  if (separated.ok() && separated->list_bytes > separated->head.size()) {
    return "lists longer than the head";
  }
  Message head;
  const bool accepted = separated.ok() && head.ParseFromString(separated->head);
  if (accepted != legal) {
    return legal ? "protobuf accepts it, quantd does not: " +
                       separated.status().ToString()
                 : "quantd accepts it, protobuf does not";
  }
  if (accepted) {
    std::string wrong = CompareSeparated(*separated, flat, &head, &expected);
    if (!wrong.empty()) return wrong;
  }
  if (!method) return "";
  return method == Method::kStream
             ? CompareStreams(flat, slices, legal)
             : CompareRequests(*method, flat, slices, legal);
}

}  // namespace

std::string CheckMessage(int type, const std::string& message, Slices slices) {
  switch (type) {
    case 0:
      return Compare<v1::QuantizeRequest>(message, slices, Method::kQuantize);
    case 1:
      return Compare<v1::DequantizeRequest>(message, slices,
                                            Method::kDequantize);
    case 2:
      return Compare<v1::RhtAmaxRequest>(message, slices, Method::kRhtAmax);
    case 3:
      return Compare<v1::ApplyRhtRequest>(message, slices, Method::kApplyRht);
    case kStreamType:
      return Compare<v1::StreamRequest>(message, slices, Method::kStream);
    default:
      return Compare<v1::QuantizeReply>(message, slices, std::nullopt);
  }
}

}  // namespace quantd::wire
