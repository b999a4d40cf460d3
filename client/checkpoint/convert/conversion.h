// Converts a model, several units at once. A unit is a group of weights or a
// tensor. Finished groups are recorded, so that another process can continue
// after an interruption.
//
// The way of a conversion: RunConvert (quantctl/models/convert.cc) opens the
// Model, whose headers and config are read, and MakeConversionPlan (plan.h)
// decides each tensor's fate: Roles::RoleOf says what it is, Selector::Judge in
// which format it is quantized, FuseWeights which weights share an amax.
// Convert opens the OutputDirectory and runs the units. Each of Pace::at_once
// threads owns one piece of memory. Encoder::Encode reads weights into it,
// calls Service::Quantize with the options that OptionsOf (dialect.h) has for
// the weight's layout, and writes the parts of the result with pwrite. Result
// memory is freed when it is written. OutputDirectory::Finish gives the shards
// their names and writes the config files last.
//
// A later run skips a group if the hashes of its source and of its output are
// those in the Journal.
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
  bool resumed = false;  // converted by an earlier process, and verified
};

struct Conversion {
  const Model& model;
  const ConversionPlan& plan;
  Service* service = nullptr;  // may be nullptr if no weight is quantized
  Pace pace = {};
  bool statistics = false;
  // `progress` receives the number of input bytes just finished, including
  // those that an earlier process converted. `done` receives each finished
  // group. One thread at a time calls either of them.
  std::function<void(size_t bytes)> progress = {};
  std::function<void(const GroupDone&)> done = {};
};

struct ConversionResult {
  uint64_t resumed_bytes = 0;  // input bytes converted by earlier processes
  uint64_t bytes_in = 0;       // input bytes converted by this process
  // Number of blocks of zeros in the source whose scale is NaN or infinite, and
  // the name of a weight with such blocks.
  uint64_t zero_blocks = 0;
  std::string zero_module;
  std::vector<std::string> lost;  // EncodedGroup::lost of all groups
};

// Writes the whole model to `out`, or returns the first error. Another call
// after an error continues the conversion.
absl::StatusOr<ConversionResult> Convert(const Conversion& conversion,
                                         const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_CONVERSION_H_
