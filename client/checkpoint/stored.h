// Finds the quantized weights of a model by names, types and shapes. Reads and
// writes metadata of shards about how weights were made.
#ifndef QUANTD_CLIENT_CHECKPOINT_STORED_H_
#define QUANTD_CLIENT_CHECKPOINT_STORED_H_

#include <array>
#include <cstdint>
#include <set>
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
  // The tensor of each of layout->parts; nullptr if it is absent.
  std::array<const ModelTensor*, 4> parts = {};

  const ModelTensor* part(PartSource source) const;
  bool has_four_bits() const;
  size_t size_bytes() const;  // size of all parts
  std::string kind() const;   // "nvfp4 by modelopt"
  // The module's name. For a stack, the name of one expert: "experts.w2.3".
  std::string name_of(int64_t expert) const;
};

// A module with tensors that fit no layout.
struct UnclearWeight {
  std::string module;
  std::string why;
  std::vector<const ModelTensor*> tensors = {};
};

struct StoredModel {
  std::vector<StoredWeight> weights;
  std::vector<UnclearWeight> unclear;
  // Weights that torch computes from several plain tensors. `why` names the
  // Python call that folds them into one.
  std::vector<UnclearWeight> factored;
  // Scales and similar tensors whose weight does not exist.
  std::vector<UnclearWeight> orphans;
  // Members of `weights` with additional tensors that change their values or
  // inputs.
  std::vector<UnclearWeight> altered;

  // All tensors of `weights`.
  std::set<const ModelTensor*> tensors() const;
  // The modules of `weights` and `unclear`.
  std::set<std::string> modules() const;
};

// The dialect that config.json names; kNone if it names none or an unknown one.
Dialect ConfiguredDialect(const Json& config);
// Whether config.json says that Quark quantized the model. Its FP8 weights have
// the same tensors as ModelOpt's.
bool IsOfQuark(const Json& config);

// The key of the metadata in which newer ComfyUI files describe all quantized
// layers. Older files have a tensor comfy_quant for each layer.
inline constexpr char kComfyMetadata[] = "_quantization_metadata";
// Whether a model has ComfyUI's labels, as metadata or as tensors.
bool HasComfyLabels(const Model& model);

// INVALID_ARGUMENT if a weight is stored twice, in two dialects or both
// quantized and plain. The model must outlive the result.
absl::StatusOr<StoredModel> FindStored(const Model& model);

// Describes the rotations of weights that a configuration declares, which
// engines must apply to the activations, too; "": none.
std::string RotationOf(const Json& config);

// INVALID_ARGUMENT if the model has rotated weights, FP8 blocks that are not
// 128 x 128, or weights of unknown formats that no pattern of `ignore` matches.
// Those that match can be copied unchanged. `ignore` is nullptr if copying is
// not possible.
absl::Status RefuseUnclear(const Model& model, const StoredModel& stored,
                           const std::vector<Pattern>* ignore);

struct MadeWith {
  const WeightLayout* layout = nullptr;
  Profile profile = Profile::kTe;
};

// Records the profile of all weights that have no entry of their own.
void SayMadeWith(Profile profile, safetensors::Metadata* metadata);
// Records the profile of one weight.
void SayMadeWith(const std::string& module, const MadeWith& made,
                 safetensors::Metadata* metadata);

// Removes all entries of quantd, because the weights are about to be replaced.
void DropMadeWith(safetensors::Metadata* metadata);

// The profile recorded for all weights, "" if none is recorded.
std::string ProfileSaid(const Model& model);
// The recorded profile and layout of the weight. If none is recorded, its
// stored layout and that layout's default profile.
MadeWith MadeWithOf(const Model& model, const StoredWeight& weight);

// Records that a module's block scales were fitted to another global scale.
// They then differ slightly from the scales with which its codes were made.
void SayFitted(const std::string& module, safetensors::Metadata* metadata);
bool IsFitted(const Model& model, const StoredWeight& w);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_STORED_H_
