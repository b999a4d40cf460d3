#include "tests/fuzz/wire_check.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan/field_error.h"
#include "proto/messages.h"

namespace quantd::wire {
namespace {

// Fields, unknown ones too, and payload of the slices against `expected`.
template <typename Message>
std::string CompareSeparated(const SeparatedMessage& separated,
                             const std::string& flat, Message* head,
                             Message* expected) {
  if (separated.payload.offset > flat.size() ||
      separated.payload.size > flat.size() - separated.payload.offset) {
    return "the payload lies outside the message";
  }
  if (!head->payload().empty()) return "the head has a payload";
  const std::string_view payload = std::string_view(flat).substr(
      separated.payload.offset, separated.payload.size);
  if (payload != expected->payload()) return "payloads differ";
  expected->clear_payload();
  if (head->SerializeAsString() != expected->SerializeAsString()) {
    return "fields differ:\n" + head->DebugString() + "---\n" +
           expected->DebugString();
  }
  return "";
}

// A request with everything that follows from it, as bytes.
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

// What lies elsewhere is of the plan's sizes, aligned, and named.
std::string CheckLent(const std::vector<MemoryRange>& ranges,
                      const std::vector<TensorSpec>& specs) {
  if (!ranges.empty() && ranges.size() != specs.size()) return "ranges missing";
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i]) continue;
    if (ranges[i].size != specs[i].size ||
        ranges[i].offset % SizeOf(specs[i].dtype) != 0) {
      return "a range that does not fit";
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

std::string CompareRequests(Method method, const std::string& flat,
                            Slices slices, Verdict* verdict) {
  const std::string_view whole = flat;
  const auto one = ParseRequest(method, absl::MakeSpan(&whole, 1));
  const auto cut = ParseRequest(method, slices);
  if (one.ok() != cut.ok()) return "a cut changes whether a plan is made";
  if (!one.ok()) {
    if (one.status() != cut.status()) return "a cut changes the error";
    const bool malformed = IsMalformed(one.status());
    if (malformed == verdict->legal) {
      return "called " + one.status().ToString();
    }
    if (!malformed && !GetFieldViolation(one.status())) {
      return "an error without a field: " + one.status().ToString();
    }
    return "";
  }
  if (!verdict->legal) return "a plan for a message that is none";
  verdict->planned = true;
  if (Fingerprint(*one) != Fingerprint(*cut)) return "a cut changes the plan";
  return CompareGather(*cut, flat, slices);
}

// `method`: of a request.
template <typename Message>
std::string Compare(const std::string& flat, Slices slices, Verdict* verdict,
                    std::optional<Method> method) {
  Message expected;
  verdict->legal = expected.ParseFromString(flat);
  const auto separated =
      method ? SeparateRequest(*method, slices) : SeparatePayload(slices);
  if (separated.ok() && separated->list_bytes > separated->head.size()) {
    return "lists that are longer than the head";
  }
  Message head;
  const bool accepted = separated.ok() && head.ParseFromString(separated->head);
  if (accepted != verdict->legal) {
    return verdict->legal
               ? "protobuf accepts, we do not: " + separated.status().ToString()
               : "we accept, protobuf does not";
  }
  if (!accepted) return "";
  return CompareSeparated(*separated, flat, &head, &expected);
}

}  // namespace

Verdict CheckMessage(int type, const std::string& message, Slices slices) {
  Verdict verdict;
  switch (type) {
    case 0:
      verdict.difference = Compare<v1::QuantizeRequest>(
          message, slices, &verdict, Method::kQuantize);
      break;
    case 1:
      verdict.difference = Compare<v1::DequantizeRequest>(
          message, slices, &verdict, Method::kDequantize);
      break;
    case 2:
      verdict.difference = Compare<v1::RhtAmaxRequest>(
          message, slices, &verdict, Method::kRhtAmax);
      break;
    case 3:
      verdict.difference = Compare<v1::ApplyRhtRequest>(
          message, slices, &verdict, Method::kApplyRht);
      break;
    default:
      verdict.difference =
          Compare<v1::QuantizeReply>(message, slices, &verdict, std::nullopt);
      return verdict;
  }
  if (verdict.difference.empty()) {
    verdict.difference =
        CompareRequests(kTensorMethods[type].method, message, slices, &verdict);
  }
  return verdict;
}

}  // namespace quantd::wire
