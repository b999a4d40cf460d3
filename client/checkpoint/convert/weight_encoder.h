// Quantizes weights that share an amax, piece by piece, into the tensors that
// their dialect stores.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "quantd/error_statistics.h"

namespace quantd::checkpoint {

struct EncodedGroup {
  UnitHashes hashes;
  float amax = 0;  // largest magnitude of all weights; 0 if no scale needs it
  std::optional<ErrorStatistics> statistics;
  // Weights whose codes are all zeros although their values are not: these are
  // too small for the scale, which they may share with larger weights.
  std::vector<std::string> lost;
};

// May be used by several threads at once.
struct Encoder {
  const Model& model;
  Service& service;
  PartSink* sink = nullptr;  // nullptr: the output is discarded
  bool statistics = false;   // whether to compute error statistics

  // Quantizes a group. Reads pieces of the weights into `room`, twice if the
  // weights need an amax and do not all fit. `progress` receives the input
  // bytes of each piece. INVALID_ARGUMENT if a weight has NaN or Inf.
  // RESOURCE_EXHAUSTED if 128 rows do not fit into `room`.
  absl::StatusOr<EncodedGroup> Encode(
      const FusedWeights& group, absl::Span<std::byte> room,
      absl::FunctionRef<void(size_t bytes)> progress) const;
};

// The hash of a group's source bytes, equal to EncodedGroup::hashes.source.
absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
