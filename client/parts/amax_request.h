// The amax that parts of a tensor must agree on before they are quantized: what
// to ask each of them, and how the answers come together.
#ifndef QUANTD_CLIENT_PARTS_AMAX_REQUEST_H_
#define QUANTD_CLIENT_PARTS_AMAX_REQUEST_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/options.h"

namespace quantd::client {

// The kind of RhtAmax that is the amax of a copy; an estimate is made of the
// plain one.
TensorKind AmaxKindOf(const QuantizeOptions& options, bool columnwise);

// Asks for those of all copies.
RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& options);

// NaN where one of them is.
float LargerAmax(float a, float b);

// Raises `whole`, one amax or one for each line, to what the lines from `line`
// on add to it.
void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_PARTS_AMAX_REQUEST_H_
