// Quantizes weights that share an amax, a piece at a time, into the parts that
// their dialect stores.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "quantd/error_statistics.h"
#include "quantd/options.h"
#include "quantd/result.h"

namespace quantd::checkpoint {

// Client::Quantize, for example.
using QuantizeCall = std::function<absl::StatusOr<Result>(
    const TensorDesc&, absl::Span<const std::byte>, const QuantizeOptions&)>;

// Takes bytes of a tensor of the output, from `offset` on.
using PartSink = std::function<absl::Status(
    std::string_view tensor, size_t offset, absl::Span<const std::byte>)>;

struct EncodeOptions {
  bool statistics = false;  // how far the codes are from what was quantized
  std::function<void(size_t bytes)> progress = {};  // of the input
};

struct EncodedGroup {
  UnitHashes hashes;
  float amax = 0;  // of all weights; 0 where no scale needs it
  std::optional<ErrorStatistics> statistics;
};

// Reads the weights into `room`, a piece after the other, and twice where they
// share an amax and do not fit into it together. INVALID_ARGUMENT for a weight
// with NaN or Inf, by name; RESOURCE_EXHAUSTED where 128 rows do not fit.
absl::StatusOr<EncodedGroup> EncodeGroup(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room,
                                         const EncodeOptions& options,
                                         const QuantizeCall& quantize,
                                         const PartSink& sink);

// The hash of what a group is made of, as EncodeGroup tells it.
absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
