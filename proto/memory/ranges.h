// Which parts of shared memory a request lends to its call, as quantd.proto has
// them. Whether there is such a region is the server's to say.
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

// A part of a region. Without a name: none.
struct MemoryRange {
  std::string region;
  uint64_t offset = 0;
  uint64_t size = 0;
  int place = 0;  // in the request's list of inputs or outputs

  explicit operator bool() const { return !region.empty(); }
};

// What a call works in, beside its message and its reply.
struct LentRanges {
  // Empty, or one for each of plan.inputs(), none for what the request holds as
  // a field.
  std::vector<MemoryRange> inputs;
  // Empty, or one for each of plan.outputs(), none for what travels.
  std::vector<MemoryRange> outputs;
  // Names of events; empty: none.
  std::string wait_event;
  std::string record_event;

  bool any() const {
    return !inputs.empty() || !outputs.empty() || !wait_event.empty() ||
           !record_event.empty();
  }
};

// Fields of events, for errors.
inline constexpr std::string_view kWaitEvent = "memory.wait_event";
inline constexpr std::string_view kRecordEvent = "memory.record_event";

// "memory.inputs[0]", for errors.
std::string FieldOf(std::string_view list, const MemoryRange& range);
// Of a name that is no region's, or not any more, or no name at all: who may
// not know a region learns nothing.
absl::Status UnknownRegion(std::string_view field);
// The same of an event's name, which is the whole field.
absl::Status UnknownEvent(std::string_view field);
// Whether it is either.
bool IsUnknownName(const absl::Status& status);

// What `message` lends to a call on `plan`; `in_fields` are the inputs that the
// request has as fields. FieldError for ranges that are not of the plan's
// sizes, not aligned for their elements, too many or too few, or that overlap
// where something is written, for one that has no name, and for events beside
// no range.
absl::Status ReadLent(const v1::LentMemory& message, const Plan& plan,
                      const std::vector<bool>& in_fields, LentRanges* lent);
void WriteLent(const LentRanges& lent, const Plan& plan,
               v1::LentMemory* message);

MemoryRange FromProto(const v1::MemoryRange& message);
void Write(const MemoryRange& range, v1::MemoryRange* message);

// A reply's payload when what is lent does not travel.
struct PayloadLayout {
  std::vector<size_t> offsets;  // of plan.outputs(); 0 of those that are lent
  size_t size = 0;
};
PayloadLayout LayOutPayload(const Plan& plan,
                            const std::vector<MemoryRange>& outputs);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_RANGES_H_
