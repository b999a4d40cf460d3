// JSON description of a quantized tensor in a file: everything needed for
// decoding, and how the codes were made.
//
// Later versions of quantd read it: never change the meaning of a key. A
// missing key has the value that applied before the key existed.
#ifndef QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
#define QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "quantd/options.h"

namespace quantd::client {

// The content of the metadata about one tensor.
struct QuantizedDescription {
  TensorDesc tensor;
  QuantizeOptions options;
};

// Writes one line. Leaves out a given amax or scale, since the parts hold the
// values, and the requests for delayed scaling and statistics.
std::string Describe(const QuantizedDescription& description);

// INVALID_ARGUMENT for text that Describe could not have written. Whether the
// options are legal is left to the plan.
absl::StatusOr<QuantizedDescription> ParseDescription(const std::string& text);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
