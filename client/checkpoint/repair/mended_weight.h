// A quantized weight whose parts are brought into the form of its dialect,
// without the original.
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

// What is done to a weight.
struct MendedWeight {
  StoredWeight weight;  // its parts as they are, whatever their names
  // Where its scales lie in the source.
  ScaleOrder order = ScaleOrder::kLinear;
  bool swap_halves = false;
  // Codes and scales of zeros instead: what stands there means nothing else.
  bool is_zero = false;
  // Places in the tensor of scales that are no numbers, over zeros: they get 1.
  std::vector<size_t> bad_scales = {};
  bool add_label = false;      // by which ComfyUI knows it
  bool inverts_input = false;  // its scale of activations
  // As the layout stores them: the number by which the weight is read, and the
  // one that it gets, to which its block scales are fitted.
  std::optional<float> global = {};
  std::optional<float> new_global = {};
};

struct MendedPart {
  safetensors::Tensor tensor;  // its name, type and shape
  std::vector<std::byte> bytes;
};

// What fitting scales to another global one costs. Against what the weight
// was, not against its original.
struct FittingLoss {
  double signal = 0;
  double noise = 0;
  uint64_t scales = 0;
  uint64_t rounded = 0;  // scales that are no longer what they were
  double sqnr_db() const;
};

// Without bytes, from headers alone.
std::vector<safetensors::Tensor> TensorsOf(const MendedWeight& weight);
absl::StatusOr<std::vector<MendedPart>> Mend(const Model& model,
                                             const MendedWeight& weight,
                                             FittingLoss* loss);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_MENDED_WEIGHT_H_
