// What a conversion asks of the server, or of the devices of its process, and
// how much of that at once.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_SERVICE_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/buffers.h"
#include "quantd/options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::checkpoint {

// Both functions may be called from many threads at once.
class Service {
 public:
  virtual ~Service() = default;
  virtual absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                          absl::Span<const std::byte> bytes,
                                          const QuantizeOptions& options) = 0;
  // Memory that it takes where it lies, if there is any.
  virtual absl::StatusOr<HostMemory> Allocate(size_t bytes) = 0;
};

// Takes bytes of a tensor of the output, from `offset` on, from any thread.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual absl::Status Write(std::string_view tensor, size_t offset,
                             absl::Span<const std::byte> bytes) = 0;
};

struct Pace {
  // Of the input that is read, sent and held by one call.
  size_t piece_bytes = size_t{64} << 20;
  int at_once = 3;
  // The devices are of this process, whose memory is theirs, too.
  bool in_process = false;

  // The most memory that converting holds at once, about.
  uint64_t memory() const;
};

// Calls `work` once for each number below `units`, in order but `at_once` of
// them side by side, the caller's thread among those. `room` is `room_bytes` of
// memory that belongs to one call of `work` while it runs, of the service where
// there is one. After an error no further unit is begun. Returns the first
// error.
absl::Status ForEachUnit(
    size_t units, int at_once, size_t room_bytes, Service* service,
    absl::FunctionRef<absl::Status(size_t unit, absl::Span<std::byte> room)>
        work);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_SERVICE_H_
