// Quantized weights to bf16.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// To the bf16 that is nearest to code times scale, where the scale is in fp32,
// that of the block with the global one in it: what engines multiply by.
// Stacked experts come out as K rows of N.
absl::Status DecodeWeight(
    const Model& model, const StoredWeight& weight,
    const std::function<absl::Status(size_t offset,
                                     absl::Span<const std::byte>)>& sink);

// Of everything that the weight is made of.
absl::StatusOr<std::string> HashOfParts(const Model& model,
                                        const StoredWeight& weight);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_WEIGHT_DECODER_H_
