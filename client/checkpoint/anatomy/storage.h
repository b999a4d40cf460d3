// Classifies a tensor by its name, type and shape: plain numbers, a buffer that
// is not a weight, or a part of a weight that any library quantized.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_STORAGE_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_STORAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/files/safetensors.h"

namespace quantd::checkpoint {

enum class Storage : uint8_t {
  kPlain,      // numbers in F32, F16 or BF16
  kBuffer,     // positions, masks, counters
  kCodes,      // codes of a quantized weight, or an unusual type
  kCompanion,  // scales, zero points, tables that belong to codes
  kFactor,     // one of several tensors from which torch computes a weight
};

struct TensorStorage {
  Storage storage = Storage::kPlain;
  // The module of the weight that the tensor is a part of; "" if none.
  std::string module;
};
TensorStorage StorageOf(const safetensors::Tensor& tensor);

// Whether the type is one for numbers that are not quantized.
bool IsPlainType(std::string_view dtype);
// Whether a plain model may also have a tensor like this companion.
bool IsCommon(const safetensors::Tensor& tensor);
// Whether decoding a weight can ignore this part: an input or output scale, the
// shape, or ComfyUI's label.
bool IsSpareBeside(std::string_view part);
// Whether engines know a quantized weight's tensor with this last name. Others
// may change the weight's values.
bool IsKnownPart(std::string_view part);
// Whether a tensor of that name is a scale of the KV cache.
bool IsCacheScale(std::string_view name);

// The Python call that folds factors into one weight, for a message.
std::string FoldingOf(const std::vector<const safetensors::Tensor*>& factors);

// Describes a weight of unknown layout for a message. DescribeParts lists the
// names, types and shapes of its parts; MayBe guesses its format, "" if it
// cannot. `parts` are all tensors of one weight.
std::string DescribeParts(const std::string& module,
                          std::vector<const safetensors::Tensor*> parts);
std::string MayBe(const std::string& module,
                  const std::vector<const safetensors::Tensor*>& parts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_STORAGE_H_
