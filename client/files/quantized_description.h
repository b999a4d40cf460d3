// The JSON description of a quantized tensor in a file: everything needed for
// decoding, and the options that made the data.
//
// Later versions of quantd read these files: never change the meaning of a key.
// A missing key stands for the behaviour before the key existed.
#ifndef QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
#define QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "quantd/options.h"

namespace quantd::client {

// The metadata about one tensor.
struct QuantizedDescription {
  TensorDesc tensor;
  QuantizeOptions options;
};

// Writes one line of JSON. It omits a given amax or scale, whose values are
// stored as tensors, and requests for delayed scaling and statistics.
std::string Describe(const QuantizedDescription& description);

// Returns INVALID_ARGUMENT for text that Describe cannot have written. Does not
// check whether the options are legal; MakeQuantizePlan does.
absl::StatusOr<QuantizedDescription> ParseDescription(const std::string& text);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
