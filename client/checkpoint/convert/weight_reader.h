// Reads rows of a weight from its tensor, and finds the largest magnitude.
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

// Reads rows [row, row + count) of the N x K matrix, row-major however they are
// stored: count * K elements of weight.dtype().
absl::Status ReadRows(const Model& model, const Weight& weight, int64_t row,
                      int64_t count, absl::Span<std::byte> bytes);

// The largest magnitude among f32, f16 or bf16 numbers; infinity or NaN if
// there is one.
float LargestMagnitude(DType dtype, absl::Span<const std::byte> bytes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
