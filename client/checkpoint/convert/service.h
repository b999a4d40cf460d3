// The operations that a conversion needs from a server or a device in this
// process, and how much it may ask for at once.
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
  // Memory that the service can use in place, if it has any.
  virtual absl::StatusOr<HostMemory> Allocate(size_t bytes) = 0;
};

// Receives bytes of an output tensor, from `offset` on, on any thread.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual absl::Status Write(std::string_view tensor, size_t offset,
                             absl::Span<const std::byte> bytes) = 0;
};

struct Pace {
  // Input bytes that one call reads, sends and holds.
  size_t piece_bytes = size_t{64} << 20;
  int at_once = 3;
  // The devices are in this process and use its memory.
  bool in_process = false;

  // Estimate of the most memory that the conversion holds at once.
  uint64_t memory() const;
};

// Calls `work` once for each number below `units`, in order, on `at_once`
// threads, the caller's included. `room` is `room_bytes` of memory for one call
// of `work` while it runs, from `service` unless that is null. After an error
// no further unit is begun. Returns the first error.
absl::Status ForEachUnit(
    size_t units, int at_once, size_t room_bytes, Service* service,
    absl::FunctionRef<absl::Status(size_t unit, absl::Span<std::byte> room)>
        work);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_SERVICE_H_
