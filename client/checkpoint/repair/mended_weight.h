// Converts the parts of a quantized weight to the form of its dialect, without
// quantizing again.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// A weight and the changes to it.
struct MendedWeight {
  StoredWeight weight;  // its present parts, under any name
  bool changed = false;
  // The present order of its scales.
  ScaleOrder order = ScaleOrder::kLinear;
  bool swap_halves = false;  // of E2M1 bytes
  // The weight is all zeros: sets codes to 0 and block scales to 1.
  bool is_zero = false;
  // Indices of scales that are NaN or infinite in blocks of zeros. They become
  // 1.
  std::vector<size_t> bad_scales = {};
  bool add_label = false;      // adds comfy_quant
  bool inverts_input = false;  // replaces its input scale by the reciprocal
  // Both in the layout's form: the right global scale of the weight, and a new
  // one to which its block scales are fitted.
  std::optional<float> global = {};
  std::optional<float> new_global = {};
};

struct MendedPart {
  safetensors::Tensor tensor;  // name, type and shape
  std::vector<std::byte> bytes;
};

// The error from fitting block scales to another global scale, relative to the
// weight before the repair, not to its original.
struct FittingLoss {
  double signal = 0;
  double noise = 0;
  uint64_t scales = 0;
  uint64_t rounded = 0;  // number of scales that were rounded
  double sqnr_db() const;
};

// The resulting tensors, computed from headers only. Mend also returns their
// bytes, and adds the error of fitting to `loss`.
std::vector<safetensors::Tensor> TensorsOf(const MendedWeight& weight);
absl::StatusOr<std::vector<MendedPart>> Mend(const Model& model,
                                             const MendedWeight& weight,
                                             FittingLoss* loss);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_
