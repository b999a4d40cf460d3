// Plan of a model's conversion: which tensors are quantized and how, which
// share an amax, which are copied, and which file each tensor goes to. Made by
// client/checkpoint/planner.h.
#ifndef QUANTD_CLIENT_CHECKPOINT_PLAN_H_
#define QUANTD_CLIENT_CHECKPOINT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

struct Selection {
  Dialect dialect = Dialect::kCompressedTensors;
  WeightFormat format = WeightFormat::kNvfp4;
  // Patterns of modules; see Pattern.
  std::vector<std::string> only = {};     // no others are quantized
  std::vector<std::string> ignore = {};   // not quantized
  std::vector<std::string> include = {};  // quantized whatever their role
  std::vector<std::string> rules =
      {};  // "PATTERN=FORMAT"; the first match counts
  std::vector<std::string> fuse = {};  // "q_proj,k_proj,v_proj"
  // The library whose arithmetic is used; nullopt: that of the dialect.
  std::optional<Profile> profile = {};
  // The largest magnitude of each module's inputs.
  std::map<std::string, float> input_amax = {};
};

// Bytes of a tensor of a safetensors type.
size_t SizeOfShape(std::string_view dtype, const std::vector<int64_t>& shape);

// An N x K matrix to quantize, and its place in a tensor.
struct Weight {
  std::string module;  // "model.layers.0.mlp.down_proj"
  Role role = Role::kLinear;
  const ModelTensor* source = nullptr;
  size_t offset = 0;        // bytes, of the first element
  size_t pitch = 0;         // bytes from one stored row to the next
  bool transposed = false;  // stored as K rows of N
  int64_t rows = 0;         // N
  int64_t cols = 0;         // K
  // The source, if it is already quantized: it is decoded to fp32.
  std::optional<StoredWeight> stored;
  // Read as fp32 although stored in another type, because a weight that shares
  // its amax has a different type: libraries compute global scales in the type
  // of the weight.
  bool widened = false;
  const WeightLayout* layout = nullptr;
  Profile profile = Profile::kTe;
  std::optional<float> input_amax;
  // The resulting tensors, in the order of layout->parts, and the offset in
  // each: not 0 if experts stay stacked.
  struct Output {
    PartSource source = PartSource::kNothing;
    std::string name;
    size_t offset = 0;
    size_t size = 0;
  };
  std::vector<Output> outputs;

  // The type as which it is read.
  std::string_view dtype() const {
    return stored || widened ? std::string_view("F32") : source->stored.dtype;
  }
  size_t size_bytes() const;  // size in the source, including scales
};

// Weights with one amax.
struct FusedWeights {
  std::vector<Weight> weights;
};

// A quantized weight that is decoded to bf16.
struct DecodedWeight {
  StoredWeight stored;
  std::string name;  // name of the resulting tensor

  safetensors::Tensor tensor() const;
};

// A matrix that is not quantized.
struct LeftOut {
  std::string module;
  Role role = Role::kLinear;
  std::string kind;    // plural of its kind: "embeddings"
  std::string reason;  // why this one is left out
  uint64_t bytes = 0;  // 0: not needed
};

struct OutputShard {
  std::string name;
  std::vector<safetensors::Tensor> tensors;
  safetensors::Metadata metadata;
};

struct ConversionPlan {
  Dialect dialect = Dialect::kNone;
  std::vector<FusedWeights> groups;
  std::vector<DecodedWeight> decoded;
  std::vector<const ModelTensor*> copies;  // byte for byte
  std::vector<OutputShard> shards;  // the model's shards that are not empty
  std::vector<LeftOut> left_out;    // matrices that are copied
  std::vector<std::string> notes;
  bool torn = false;      // fused weights have more than one format
  uint64_t bytes_in = 0;  // of all tensors
  uint64_t quantized_bytes_in = 0;
  uint64_t bytes_out = 0;

  // The number of weights of each format that occurs.
  std::map<WeightFormat, size_t> formats() const;
  size_t weights() const;
};

// Reason for leaving out every possible linear layer of an unknown model.
inline constexpr char kOfOtherClass[] =
    "weights of a class of model that is not known here";

// The error of a plan that quantizes nothing: says what is left out, by kind.
absl::Status NothingLeft(const std::string& path, const ConversionPlan& plan);

// The first few names left out for that reason, one for all layers.
std::string FamiliesOf(std::string_view kind, const ConversionPlan& plan);

// The error for a model of unknown class `name` if the user selects nothing by
// name.
absl::Status UnknownClass(const std::string& path, const std::string& name,
                          const ConversionPlan& plan);

// INVALID_ARGUMENT if two tensors have the same name.
absl::Status CheckNames(const std::string& path, const ConversionPlan& plan);

// Adds a note that `count` weights are decoded first.
void NoteStored(size_t count, const StoredWeight& first, ConversionPlan* plan);

// Adds a note about weights that --include selects although few engines support
// them quantized.
void NoteIncluded(ConversionPlan* plan);

// Adds a note about weights that engines fuse but that would not all have one
// format.
void NoteTorn(const Model& model, const Architecture& architecture,
              ConversionPlan* plan);

// Adds a note about names that engines do not find.
void NoteWrapped(const Model& model, ConversionPlan* plan);

// Adds a note about the copied scales of the KV cache.
void NoteCacheScales(ConversionPlan* plan);

// Adds a note of how much of the model is left out for that reason, if it is at
// least `least` percent.
void NoteLeft(std::string_view kind, double least, ConversionPlan* plan);

// Orders the tensors of each shard so that each begins at a multiple of its
// element size, as readers expect, and sums up bytes_out.
void Arrange(ConversionPlan* plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PLAN_H_
