// Converts a model: some units at once, each of them written down when it is
// done, so that whatever ends the process, the next one goes on.
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

// A group of weights that is done.
struct GroupDone {
  const FusedWeights* group = nullptr;
  float amax = 0;
  std::optional<ErrorStatistics> statistics;
  double seconds = 0;
  bool resumed = false;  // by an earlier process, and its bytes are right
};

struct Conversion {
  const Model& model;
  const ConversionPlan& plan;
  Service* service = nullptr;  // may be none where no weight is quantized
  Pace pace = {};
  bool statistics = false;
  // Bytes of the input that are done, those of earlier processes too. Called
  // by one thread at a time, as is `done`.
  std::function<void(size_t bytes)> progress = {};
  std::function<void(const GroupDone&)> done = {};
};

struct ConversionResult {
  uint64_t resumed_bytes = 0;  // of the input, done by earlier processes
  uint64_t bytes_in = 0;       // by this one
  // Blocks of zeros that had a scale of NaN or infinity, and a weight of them.
  uint64_t zero_blocks = 0;
  std::string zero_module;
};

// Ends with a whole model at `out`, or with an error and what the same call
// goes on with. Stops at the first error.
absl::StatusOr<ConversionResult> Convert(const Conversion& conversion,
                                         const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONVERSION_H_
