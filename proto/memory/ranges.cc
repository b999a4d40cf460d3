#include "proto/memory/ranges.h"

#include "fmt/format.h"
#include "kernels/plan/plan_checks.h"
#include "quantd.pb.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

constexpr std::string_view kInputs = "memory.inputs";
constexpr std::string_view kOutputs = "memory.outputs";
// What errors about unknown names expect. No other error expects the same.
constexpr std::string_view kKnownRegion =
    "the name of a region that is shared with this server";
constexpr std::string_view kKnownEvent =
    "the name of an event that is shared with this server";

// Compares without a sum, which could wrap.
bool Overlap(const MemoryRange& a, const MemoryRange& b) {
  if (a.region != b.region || a.size == 0 || b.size == 0) return false;
  return a.offset >= b.offset ? a.offset - b.offset < b.size
                              : b.offset - a.offset < a.size;
}

absl::Status CheckRange(std::string_view field, const MemoryRange& range,
                        const TensorSpec& want) {
  if (!range) return UnknownRegion(field);
  if (range.size != want.size) {
    return FieldError(fmt::format("{}.size", field),
                      fmt::format("{} bytes of {}", want.size, Name(want.kind)),
                      fmt::format("{} bytes", range.size));
  }
  if (range.offset % SizeOf(want.dtype) != 0) {
    return FieldError(fmt::format("{}.offset", field),
                      fmt::format("a multiple of {}, the size of {}",
                                  SizeOf(want.dtype), Name(want.dtype)),
                      fmt::to_string(range.offset));
  }
  return absl::OkStatus();
}

absl::Status ReadInputs(const v1::LentMemory& message, const Plan& plan,
                        const std::vector<bool>& in_fields, LentRanges* lent) {
  if (message.inputs().empty()) return absl::OkStatus();
  lent->inputs.resize(plan.inputs().size());
  int next = 0;
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    if (in_fields[i]) continue;
    if (next == message.inputs_size()) {
      return FieldError(
          kInputs, fmt::format("a range of {}", Name(plan.inputs()[i].kind)),
          fmt::format("only {} ranges", message.inputs_size()));
    }
    MemoryRange& range = lent->inputs[i];
    range = FromProto(message.inputs(next));
    range.place = next++;
    QUANTD_RETURN_IF_ERROR(
        CheckRange(FieldOf("inputs", range), range, plan.inputs()[i]));
  }
  if (next < message.inputs_size()) {
    return FieldError(kInputs, fmt::format("{} ranges", next),
                      fmt::to_string(message.inputs_size()));
  }
  return absl::OkStatus();
}

absl::Status ReadOutputs(const v1::LentMemory& message, const Plan& plan,
                         LentRanges* lent) {
  if (message.outputs().empty()) return absl::OkStatus();
  lent->outputs.resize(plan.outputs().size());
  for (int k = 0; k < message.outputs_size(); ++k) {
    const v1::LentOutput& output = message.outputs(k);
    const std::string field = fmt::format("{}[{}]", kOutputs, k);
    const auto kind = static_cast<TensorKind>(output.kind());
    const TensorSpec* const want = plan.output(kind);
    if (want == nullptr) {
      return FieldError(fmt::format("{}.kind", field), "a tensor of the reply",
                        NameOrNumber(kind));
    }
    MemoryRange& range = lent->outputs[want - plan.outputs().data()];
    if (range) {
      return FieldError(fmt::format("{}.kind", field), "each kind once",
                        fmt::format("{} again", Name(kind)));
    }
    range = FromProto(output.range());
    range.place = k;
    QUANTD_RETURN_IF_ERROR(
        CheckRange(fmt::format("{}.range", field), range, *want));
  }
  return absl::OkStatus();
}

absl::Status CheckApart(std::string_view list,
                        const std::vector<MemoryRange>& others,
                        const MemoryRange& output) {
  for (const MemoryRange& other : others) {
    if (&other == &output || !Overlap(other, output)) continue;
    return FieldError(
        FieldOf("outputs", output),
        fmt::format("a range that does not overlap {}", FieldOf(list, other)),
        fmt::format("{} bytes at {}, and {} at {}", output.size, output.offset,
                    other.size, other.offset));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FieldOf(std::string_view list, const MemoryRange& range) {
  return fmt::format("memory.{}[{}]{}", list, range.place,
                     list == "outputs" ? ".range" : "");
}

absl::Status UnknownRegion(std::string_view field) {
  return FieldError(fmt::format("{}.region", field), kKnownRegion,
                    "another one");
}

absl::Status UnknownEvent(std::string_view field) {
  return FieldError(field, kKnownEvent, "another one");
}

bool IsUnknownName(const absl::Status& status) {
  const auto violation = GetFieldViolation(status);
  return violation && (violation->expected == kKnownRegion ||
                       violation->expected == kKnownEvent);
}

MemoryRange FromProto(const v1::MemoryRange& message) {
  return {message.region(), message.offset(), message.size()};
}

void Write(const MemoryRange& range, v1::MemoryRange* message) {
  message->set_region(range.region);
  message->set_offset(range.offset);
  message->set_size(range.size);
}

absl::Status ReadLent(const v1::LentMemory& message, const Plan& plan,
                      const std::vector<bool>& in_fields, LentRanges* lent) {
  QUANTD_RETURN_IF_ERROR(ReadInputs(message, plan, in_fields, lent));
  QUANTD_RETURN_IF_ERROR(ReadOutputs(message, plan, lent));
  for (const MemoryRange& output : lent->outputs) {
    QUANTD_RETURN_IF_ERROR(CheckApart("inputs", lent->inputs, output));
    QUANTD_RETURN_IF_ERROR(CheckApart("outputs", lent->outputs, output));
  }
  lent->wait_event = message.wait_event();
  lent->record_event = message.record_event();
  if (lent->any() && lent->inputs.empty() && lent->outputs.empty()) {
    return FieldError(lent->wait_event.empty() ? kRecordEvent : kWaitEvent,
                      "none in a call without shared memory", "one");
  }
  return absl::OkStatus();
}

void WriteLent(const LentRanges& lent, const Plan& plan,
               v1::LentMemory* message) {
  for (const MemoryRange& range : lent.inputs) {
    if (range) Write(range, message->add_inputs());
  }
  for (size_t i = 0; i < lent.outputs.size(); ++i) {
    if (!lent.outputs[i]) continue;
    v1::LentOutput* const output = message->add_outputs();
    output->set_kind(static_cast<v1::TensorKind>(plan.outputs()[i].kind));
    Write(lent.outputs[i], output->mutable_range());
  }
  message->set_wait_event(lent.wait_event);
  message->set_record_event(lent.record_event);
}

PayloadLayout LayOutPayload(const Plan& plan,
                            const std::vector<MemoryRange>& outputs) {
  PayloadLayout layout;
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const TensorSpec& spec = plan.outputs()[i];
    if (!outputs.empty() && outputs[i]) {
      layout.offsets.push_back(0);
      continue;
    }
    layout.size = (layout.size + kPayloadAlignment - 1) / kPayloadAlignment *
                  kPayloadAlignment;
    layout.offsets.push_back(layout.size);
    layout.size += spec.size;
  }
  return layout;
}

}  // namespace quantd::wire
