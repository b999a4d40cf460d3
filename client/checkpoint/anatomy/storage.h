// How a tensor is stored: as plain numbers, as a buffer that is no weight, or
// as a part of a quantized weight, of whatever library. Told by name, type and
// shape.
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
  kCodes,      // of a quantized weight, or numbers of another type
  kCompanion,  // scales, zeros, tables: nothing without the codes
  kFactor,     // of a weight that is made anew of several each time
};

struct TensorStorage {
  Storage storage = Storage::kPlain;
  // The weight that it is a part of; empty: of none.
  std::string module;
};
TensorStorage StorageOf(const safetensors::Tensor& tensor);

// Whether a plain model may have such a companion, for a thing of its own.
bool IsCommon(const safetensors::Tensor& tensor);
// Whether the part says something of what comes in or out of the weight, or of
// its shape, and decoding the weight takes nothing of it.
bool IsSpareBeside(std::string_view part);
// Whether a tensor of that name scales the cache of keys and values.
bool IsCacheScale(std::string_view name);

// What folds factors into one weight again, for a sentence.
std::string FoldingOf(const std::vector<const safetensors::Tensor*>& factors);

// What is said of a weight whose layout is not known: its parts with types and
// shapes, and what it may be. `parts`: of one weight, with a plain matrix where
// there is one.
std::string DescribeParts(const std::string& module,
                          std::vector<const safetensors::Tensor*> parts);
std::string MayBe(const std::string& module,
                  const std::vector<const safetensors::Tensor*>& parts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_STORAGE_H_
