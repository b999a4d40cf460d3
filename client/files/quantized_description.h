// What a file says about a quantized tensor, as JSON: all that decoding needs,
// and how the codes were made.
//
// Read by quantd of later versions: never change what a key means. A key that
// is not there has the value it had before there was such a key.
#ifndef QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
#define QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "quantd/options.h"

namespace quantd::client {

// What the metadata say about one tensor.
struct QuantizedDescription {
  TensorDesc tensor;
  QuantizeOptions options;
};

// One line. Left out: an amax or a scale that was given, since the parts hold
// the values, and what delayed scaling and statistics were to give.
std::string Describe(const QuantizedDescription& description);

// INVALID_ARGUMENT for what Describe could not have written. Whether the
// options are legal is the plan's to say.
absl::StatusOr<QuantizedDescription> ParseDescription(const std::string& text);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_DESCRIPTION_H_
