// Quantizes weights that share an amax, a piece at a time, into the parts that
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
  float amax = 0;  // of all weights; 0 where no scale needs it
  std::optional<ErrorStatistics> statistics;
};

// May be used by many threads at once.
struct Encoder {
  const Model& model;
  Service& service;
  PartSink* sink = nullptr;  // nullptr: what is made is dropped
  bool statistics = false;   // how far the codes are from what was quantized

  // Reads the weights into `room`, a piece after the other, and twice where
  // they share an amax and do not fit into it together. `progress`: told of
  // bytes of the input. INVALID_ARGUMENT for a weight with NaN or Inf, by name;
  // RESOURCE_EXHAUSTED where 128 rows do not fit.
  absl::StatusOr<EncodedGroup> Encode(
      const FusedWeights& group, absl::Span<std::byte> room,
      absl::FunctionRef<void(size_t bytes)> progress) const;
};

// The hash of what a group is made of, as an encoder tells it.
absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
