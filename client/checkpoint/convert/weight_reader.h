// Reads lines of a weight out of the tensor that holds it, and looks at the
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

// Rows [row, row + count) of the N x K matrix, row-major, whatever way they
// are stored: count * K elements of weight.dtype().
absl::Status ReadRows(const Model& model, const Weight& weight, int64_t row,
                      int64_t count, absl::Span<std::byte> bytes);

// The largest magnitude among f32, f16 or bf16 numbers: of finite ones that
// number; an infinity or NaN where there is one.
float LargestMagnitude(DType dtype, absl::Span<const std::byte> bytes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
