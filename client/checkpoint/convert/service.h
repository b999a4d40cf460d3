// The operations that a conversion needs from a server or from the devices of
// this process, and limits for its calls. quantctl's ModelService implements
// them.
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

// Both functions may be called by several threads at once.
class Service {
 public:
  virtual ~Service() = default;
  virtual absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                          absl::Span<const std::byte> bytes,
                                          const QuantizeOptions& options) = 0;
  // Allocates memory that the service can use without copying, if it has any.
  virtual absl::StatusOr<HostMemory> Allocate(size_t bytes) = 0;
};

// Receives the bytes of output tensors; OutputDirectory writes them to shards.
// Write is called by several threads at once, with bytes that begin at `offset`
// in the tensor.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual absl::Status Write(std::string_view tensor, size_t offset,
                             absl::Span<const std::byte> bytes) = 0;
};

struct Pace {
  // Input bytes of one call.
  size_t piece_bytes = size_t{64} << 20;
  int at_once = 3;
  // Whether the devices are in this process and use its memory.
  bool in_process = false;

  // The most memory that a conversion holds at once, estimated, in bytes.
  uint64_t memory() const;
};

// Calls `work` once for each number below `units`, in order, on `at_once`
// threads including the caller's. Each thread passes `work` its own buffer
// `room` of `room_bytes`, which `service` allocates unless it is nullptr. After
// an error no further unit is begun. Returns the first error.
absl::Status ForEachUnit(
    size_t units, int at_once, size_t room_bytes, Service* service,
    absl::FunctionRef<absl::Status(size_t unit, absl::Span<std::byte> room)>
        work);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_SERVICE_H_
