// The ranges of shared memory that a request lends to its call (LentMemory of
// quantd.proto). The server checks whether their regions exist.
#ifndef QUANTD_PROTO_MEMORY_RANGES_H_
#define QUANTD_PROTO_MEMORY_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "quantd/plan.h"

namespace quantd::v1 {
class LentMemory;
class MemoryRange;
}  // namespace quantd::v1

namespace quantd::wire {

// A range of a region. If `region` is empty there is no range.
struct MemoryRange {
  std::string region;
  uint64_t offset = 0;
  uint64_t size = 0;
  int place = 0;  // index in the request's list of inputs or outputs

  explicit operator bool() const { return !region.empty(); }
};

// Memory that a call uses instead of payloads.
struct LentRanges {
  // Empty, or one range for each of plan.inputs(); no range for an input that
  // the request holds as a field.
  std::vector<MemoryRange> inputs;
  // Empty, or one range for each of plan.outputs(); no range for an output that
  // is sent in the payload.
  std::vector<MemoryRange> outputs;
  // Names of events; empty: no event.
  std::string wait_event;
  std::string record_event;

  bool any() const {
    return !inputs.empty() || !outputs.empty() || !wait_event.empty() ||
           !record_event.empty();
  }
};

// Names of the event fields, for errors.
inline constexpr std::string_view kWaitEvent = "memory.wait_event";
inline constexpr std::string_view kRecordEvent = "memory.record_event";

// The name of a range, such as "memory.inputs[0]", for errors.
std::string FieldOf(std::string_view list, const MemoryRange& range);
// The error for a name that is missing, unknown or no longer valid. The error
// is the same in all three cases, so that a client cannot probe for other
// clients' regions.
absl::Status UnknownRegion(std::string_view field);
// The error for the name of an unknown event; `field` is its complete field
// name.
absl::Status UnknownEvent(std::string_view field);
// Whether a status is one of these two errors.
bool IsUnknownName(const absl::Status& status);

// Reads the ranges that `message` lends to a call on `plan`. `in_fields` marks
// the inputs that the request has as fields. FieldError for ranges that differ
// from the plan's sizes, are not aligned for their elements, are too many or
// too few, overlap an output, or have no name, and for events without any
// range.
absl::Status ReadLent(const v1::LentMemory& message, const Plan& plan,
                      const std::vector<bool>& in_fields, LentRanges* lent);
void WriteLent(const LentRanges& lent, const Plan& plan,
               v1::LentMemory* message);

MemoryRange FromProto(const v1::MemoryRange& message);
void Write(const MemoryRange& range, v1::MemoryRange* message);

// The layout of a reply's payload without the outputs that are lent.
struct PayloadLayout {
  std::vector<size_t> offsets;  // for each of plan.outputs(); 0 for lent ones
  size_t size = 0;
};
PayloadLayout LayOutPayload(const Plan& plan,
                            const std::vector<MemoryRange>& outputs);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_RANGES_H_
