// Reads rows of a weight from its tensor, finds the largest magnitude of
// numbers, and converts quantized weights to bf16.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Decodes a weight to the bf16 values nearest to code times scale. The scale is
// the fp32 product of block scale and global scale, as in engines. Each expert
// of a stack is written transposed: K rows of N values, with K inputs and N
// outputs. So is a single expert that becomes a part of a stack.
absl::Status DecodeWeight(
    const Model& model, const DecodedWeight& weight,
    const std::function<absl::Status(size_t offset,
                                     absl::Span<const std::byte>)>& sink);

// The hash of all tensors that the weight consists of.
absl::StatusOr<std::string> HashOfParts(const Model& model,
                                        const DecodedWeight& weight);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_READER_H_
