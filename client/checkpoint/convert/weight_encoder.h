// Quantizes weights that share an amax, piece by piece, into the parts that
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
  float amax = 0;  // of all weights; 0 if no scale needs it
  std::optional<ErrorStatistics> statistics;
};

// May be used by many threads at once.
struct Encoder {
  const Model& model;
  Service& service;
  PartSink* sink = nullptr;  // nullptr: the output is discarded
  bool statistics = false;   // compute error statistics of the codes

  // Reads the weights into `room`, one piece after the other; twice if they
  // share an amax and do not fit into it together. `progress` is told input
  // bytes. INVALID_ARGUMENT names a weight with NaN or Inf; RESOURCE_EXHAUSTED
  // if 128 rows do not fit.
  absl::StatusOr<EncodedGroup> Encode(
      const FusedWeights& group, absl::Span<std::byte> room,
      absl::FunctionRef<void(size_t bytes)> progress) const;
};

// Hash of a group's source bytes, the same as an encoder's.
absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_ENCODER_H_
