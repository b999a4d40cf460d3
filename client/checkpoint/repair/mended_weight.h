// Converts the parts of a quantized weight to the form of its dialect, without
// the original.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// A weight and what is to be mended about it.
struct MendedWeight {
  StoredWeight weight;  // its parts as they are, under any name
  // Order of scales in the source.
  ScaleOrder order = ScaleOrder::kLinear;
  bool swap_halves = false;
  // Replace codes and scales by zeros: the stored ones mean nothing else.
  bool is_zero = false;
  // Indices of scales that are not finite, over zeros: they become 1.
  std::vector<size_t> bad_scales = {};
  bool add_label = false;      // ComfyUI's label
  bool inverts_input = false;  // its scale of activations
  // In the layout's form: the global scale by which the weight is read, and a
  // new one to which its block scales are fitted.
  std::optional<float> global = {};
  std::optional<float> new_global = {};
};

struct MendedPart {
  safetensors::Tensor tensor;  // its name, type and shape
  std::vector<std::byte> bytes;
};

// Loss from fitting block scales to another global scale, relative to the
// weight before, not to its original.
struct FittingLoss {
  double signal = 0;
  double noise = 0;
  uint64_t scales = 0;
  uint64_t rounded = 0;  // number of scales that changed by rounding
  double sqnr_db() const;
};

// The resulting tensors without bytes, from headers only.
std::vector<safetensors::Tensor> TensorsOf(const MendedWeight& weight);
absl::StatusOr<std::vector<MendedPart>> Mend(const Model& model,
                                             const MendedWeight& weight,
                                             FittingLoss* loss);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_
