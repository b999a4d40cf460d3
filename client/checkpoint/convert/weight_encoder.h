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
#include "client/result.h"
#include "kernels/plan/error_statistics.h"
#include "kernels/plan/options.h"

namespace quantd::checkpoint {

// Client::Quantize, for example.
using QuantizeCall = std::function<absl::StatusOr<Result>(
    const TensorDesc&, absl::Span<const std::byte>, const QuantizeOptions&)>;

// Takes bytes of a tensor of the output, from `offset` on.
using PartSink = std::function<absl::Status(
    std::string_view tensor, size_t offset, absl::Span<const std::byte>)>;

struct EncodeOptions {
  // Of the input that is read, sent and held at once.
  size_t piece_bytes = size_t{32} << 20;
  bool statistics = false;  // how far the codes are from what was quantized
  std::function<void(size_t bytes)> progress = {};  // of the input
};

struct EncodedGroup {
  UnitHashes hashes;
  float amax = 0;  // of all weights; 0 where no scale needs it
  std::optional<ErrorStatistics> statistics;
};

// Reads the weights twice where they are more than a piece and share an amax.
// INVALID_ARGUMENT for a weight with NaN or Inf, by name.
absl::StatusOr<EncodedGroup> EncodeGroup(const Model& model,
                                         const FusedWeights& group,
                                         const EncodeOptions& options,
                                         const QuantizeCall& quantize,
                                         const PartSink& sink);

// The hash of what a group is made of, as EncodeGroup tells it.
absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         const EncodeOptions& options);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
