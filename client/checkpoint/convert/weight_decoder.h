// Converts quantized weights to bf16.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

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

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_
