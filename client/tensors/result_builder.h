// Makes a Result out of the pieces of a reply.
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

// Checks `into` against the parts the plan will give.
absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into);
// Refuses a part that is to be written over what the call reads: of a call that
// may be sent again when some of its result is written. FieldError of "into".
absl::Status CheckApart(absl::Span<const absl::Span<const std::byte>> payload,
                        absl::Span<const Destination> into);

class ResultBuilder {
 public:
  // `into` has passed CheckDestinations. The plan outlives the builder.
  ResultBuilder(const Plan& plan, absl::Span<const Destination> into);

  // Copies the bytes of one part. The reply says what it is and where in the
  // payload it lies; nothing of that is trusted. The payload is the range
  // (offset, size) of the concatenated slices. A part the plan does not know is
  // passed over, so that a newer server may send more. INTERNAL for one that
  // differs from the plan or lies outside the payload.
  absl::Status Add(const TensorSpec& source,
                   absl::Span<const std::string_view> slices,
                   size_t payload_offset, size_t payload_size);

  // Adds a part whose bytes are in their place already.
  absl::Status AddInPlace(const TensorSpec& source);

  // The memory of one part, which the caller fills: it counts as added. Empty
  // when there is no such part or no memory.
  absl::Span<std::byte> Claim(TensorKind kind);
  // RESOURCE_EXHAUSTED when there was no memory.
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
  // INTERNAL when a part is missing, RESOURCE_EXHAUSTED when there was no
  // memory. The builder is spent.
  absl::StatusOr<Result> Take(Report report);

  // The owner of memory for parts that did not go to the caller's places.
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
