// Reads rows of a weight from its tensor, and finds the largest magnitude of
// numbers.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "quantd/format.h"

namespace quantd::checkpoint {

// Reads rows [row, row + count) of the N x K matrix as row-major elements of
// weight.dtype(), count * K in all, even if they are stored transposed.
absl::Status ReadRows(const Model& model, const Weight& weight, int64_t row,
                      int64_t count, absl::Span<std::byte> bytes);

// The largest magnitude of f32, f16 or bf16 numbers. NaN or infinity if one of
// them is.
float LargestMagnitude(DType dtype, absl::Span<const std::byte> bytes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
