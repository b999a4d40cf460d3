// Finds the quantized weights of a model by names, types and shapes.
#ifndef QUANTD_CLIENT_CHECKPOINT_STORED_H_
#define QUANTD_CLIENT_CHECKPOINT_STORED_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {

struct StoredWeight {
  std::string module;
  const WeightLayout* layout = nullptr;
  int64_t experts = 1;  // more than one for a stack
  int64_t rows = 0;     // N of one expert
  int64_t cols = 0;
  // Parallel to layout->parts; nullptr: absent.
  std::array<const ModelTensor*, 4> parts = {};

  const ModelTensor* part(PartSource source) const;
  bool has_four_bits() const;
  size_t size_bytes() const;  // of all parts
  // The module's name, or that of one expert of a stack: "experts.w2.3".
  std::string name_of(int64_t expert) const;
};

// Something quantized that fits no layout.
struct UnclearWeight {
  std::string module;
  std::string why;
  std::vector<const ModelTensor*> tensors = {};
};

struct StoredModel {
  std::vector<StoredWeight> weights;
  std::vector<UnclearWeight> unclear;
  // Weights that torch computes from several plain tensors; `why` says what
  // folds them into one.
  std::vector<UnclearWeight> factored;
  // Scales and similar tensors without a weight.
  std::vector<UnclearWeight> orphans;
  // Those of `weights` with other tensors beside them that change their
  // numbers, or those of their inputs.
  std::vector<UnclearWeight> altered;
};

// The dialect that config.json names; kNone: no known one.
Dialect ConfiguredDialect(const Json& config);

// Key of the metadata by which newer ComfyUI files describe all quantized
// layers at once. Older files have a comfy_quant tensor for each.
inline constexpr char kComfyMetadata[] = "_quantization_metadata";
// Whether a model has ComfyUI's labels, in either form.
bool HasComfyLabels(const Model& model);

// INVALID_ARGUMENT for a weight that is there twice, in two dialects or both
// quantized and plain. The model must outlive the result.
absl::StatusOr<StoredModel> FindStored(const Model& model);

// INVALID_ARGUMENT for weights of unknown formats that no pattern of `ignore`
// allows to copy unchanged. nullptr: copying is not possible.
absl::Status RefuseUnclear(const Model& model, const StoredModel& stored,
                           const std::vector<Pattern>* ignore);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_STORED_H_
