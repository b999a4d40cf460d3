// Converts a model, several units at once. Each finished unit is recorded, so
// that after an interruption another process can continue.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_CONVERSION_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_CONVERSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/convert/weight_encoder.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// A finished group of weights.
struct GroupDone {
  const FusedWeights* group = nullptr;
  float amax = 0;
  std::optional<ErrorStatistics> statistics;
  double seconds = 0;
  bool resumed = false;  // done by an earlier process, and verified
};

struct Conversion {
  const Model& model;
  const ConversionPlan& plan;
  Service* service = nullptr;  // may be null if no weight is quantized
  Pace pace = {};
  bool statistics = false;
  // Told input bytes that are done, those of earlier processes included. Called
  // by one thread at a time, as is `done`.
  std::function<void(size_t bytes)> progress = {};
  std::function<void(const GroupDone&)> done = {};
};

struct ConversionResult {
  uint64_t resumed_bytes = 0;  // input bytes done by earlier processes
  uint64_t bytes_in = 0;       // read by this process
  // Number of blocks of zeros whose scale was NaN or infinite, and one weight
  // that has them.
  uint64_t zero_blocks = 0;
  std::string zero_module;
};

// Writes a whole model to `out`, or returns the first error; calling it again
// then continues.
absl::StatusOr<ConversionResult> Convert(const Conversion& conversion,
                                         const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONVERSION_H_
