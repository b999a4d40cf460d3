// Builds a Result from the pieces of a reply.
#ifndef QUANTD_CLIENT_TENSORS_RESULT_BUILDER_H_
#define QUANTD_CLIENT_TENSORS_RESULT_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd {

// Checks `into` against the parts that the plan will give.
absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into);
// Refuses to write a part over the call's input: the call may be repeated after
// some of its result is written. FieldError of "into".
absl::Status CheckApart(absl::Span<const absl::Span<const std::byte>> payload,
                        absl::Span<const Destination> into);

class ResultBuilder {
 public:
  // `into` has passed CheckDestinations. The plan must outlive the builder.
  ResultBuilder(const Plan& plan, absl::Span<const Destination> into);

  // Copies the bytes of one part, a range of the concatenated slices. The
  // reply's description of it is not trusted. A part that the plan does not
  // have is ignored, so that newer servers may send more. INTERNAL if it
  // differs from the plan or is outside the payload.
  absl::Status Add(const TensorSpec& source,
                   absl::Span<const std::string_view> slices,
                   size_t payload_offset, size_t payload_size);

  // Adds a part whose bytes are already in place.
  absl::Status AddInPlace(const TensorSpec& source);

  // Returns the memory of one part for the caller to fill, and counts it as
  // added. Empty if there is no such part or no memory.
  absl::Span<std::byte> Claim(TensorKind kind);
  // RESOURCE_EXHAUSTED if memory was exhausted.
  const absl::Status& status() const { return error_; }

  struct Report {
    bool saw_nan = false;
    bool saw_inf = false;
    std::optional<ErrorStatistics> rowwise;
    std::optional<ErrorStatistics> columnwise;
    std::string device;
    std::string request_id;
    int attempts = 0;
    int64_t replaced_globals = 0;
    Transport transport = Transport::kTcp;
    bool streamed = false;
    int bands = 1;
  };
  // INTERNAL if a part is missing, RESOURCE_EXHAUSTED if memory was exhausted.
  // The builder must not be used afterwards.
  absl::StatusOr<Result> Take(Report report);

  // Makes `result` own memory for parts that have no destination of the caller.
  static void Keep(HostMemory memory, Result* result);

 private:
  static absl::Status CheckSame(const TensorSpec& source,
                                const TensorSpec& spec);

  const Plan& plan_;
  Result result_;
  std::vector<absl::Span<std::byte>> targets_;  // parallel to the parts
  std::vector<bool> filled_;
  absl::Status error_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_TENSORS_RESULT_BUILDER_H_
