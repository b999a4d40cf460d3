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

// Returns a FieldError if a destination does not match an output of the plan.
absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into);
// Returns a FieldError for "into" if a destination overlaps an input. Such a
// call cannot be sent in chunks or bands, because parts of its result are
// written while the input is still being sent, or before it is sent again.
absl::Status CheckApart(absl::Span<const absl::Span<const std::byte>> payload,
                        absl::Span<const Destination> into);

// Collects the parts of a Result. Not thread-safe.
class ResultBuilder {
 public:
  // `into` must have passed CheckDestinations. The plan must outlive this.
  ResultBuilder(const Plan& plan, absl::Span<const Destination> into);

  // Copies the bytes of one part, a range of the concatenated slices. `source`
  // is the reply's description, which is not trusted. Returns INTERNAL if it
  // differs from the plan or lies outside the payload. A part that the plan
  // does not have is ignored, because newer servers may send more.
  absl::Status Add(const TensorSpec& source,
                   absl::Span<const std::string_view> slices,
                   size_t payload_offset, size_t payload_size);

  // Adds a part whose bytes are already in the memory of Claim.
  absl::Status AddInPlace(const TensorSpec& source);

  // Returns the memory of one part for the caller to fill, and counts the part
  // as added. Empty if the part does not exist or memory is exhausted.
  absl::Span<std::byte> Claim(TensorKind kind);
  // Returns RESOURCE_EXHAUSTED if memory could not be allocated.
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

    // Adds the report of a part of the call, except its statistics.
    void Add(const Result& part);
  };
  // Returns the result; the builder must not be used afterwards. Returns
  // INTERNAL if a part is missing, and RESOURCE_EXHAUSTED if memory was
  // exhausted.
  absl::StatusOr<Result> Take(Report report);

  // Makes `result` own the memory of parts that had no destination of the
  // caller.
  static void Keep(HostMemory memory, Result* result);

 private:
  static absl::Status CheckSame(const TensorSpec& source,
                                const TensorSpec& spec);

  const Plan& plan_;
  Result result_;
  std::vector<absl::Span<std::byte>> targets_;  // memory of each part
  std::vector<bool> filled_;
  absl::Status error_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_TENSORS_RESULT_BUILDER_H_
