// Plan of a model's conversion: which tensors are quantized and how, which of
// them share an amax, which are copied, and the output file of each tensor.
#ifndef QUANTD_CLIENT_CHECKPOINT_PLAN_H_
#define QUANTD_CLIENT_CHECKPOINT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

struct Selection {
  Dialect dialect = Dialect::kCompressedTensors;
  WeightFormat format = WeightFormat::kNvfp4;
  // Patterns of modules; see Pattern.
  std::vector<std::string> only = {};    // only these are quantized; empty: all
  std::vector<std::string> ignore = {};  // not quantized
  std::vector<std::string> include = {};  // quantized regardless of their role
  std::vector<std::string> rules =
      {};  // "PATTERN=FORMAT"; the first match applies
  std::vector<std::string> fuse = {};  // "q_proj,k_proj,v_proj"
  // The library whose arithmetic is used; nullopt: the dialect's library.
  std::optional<Profile> profile = {};
  // The largest magnitude of each module's inputs, by module.
  std::map<std::string, float> input_amax = {};
  // The largest magnitudes of the keys and of the values that each attention
  // caches; empty: no scales of caches are written.
  std::map<std::string, std::pair<float, float>> cache_amax = {};
};

// The size in bytes of a tensor with this safetensors type and shape.
size_t SizeOfShape(std::string_view dtype, const std::vector<int64_t>& shape);

// An N x K matrix to quantize, and its position in a stored tensor.
struct Weight {
  std::string module;  // "model.layers.0.mlp.down_proj"
  Role role = Role::kLinear;
  const ModelTensor* source = nullptr;
  size_t offset = 0;        // bytes before the first element
  size_t pitch = 0;         // bytes from one stored row to the next
  bool transposed = false;  // the tensor stores K rows of N
  int64_t rows = 0;         // N
  int64_t cols = 0;         // K
  // Set if the source is already quantized; it is then decoded to fp32.
  std::optional<StoredWeight> stored;
  // Read as fp32 although stored in another type, because the weights that
  // share the amax have different types. Libraries compute global scales in the
  // type of the weight.
  bool widened = false;
  const WeightLayout* layout = nullptr;
  Profile profile = Profile::kTe;
  std::optional<float> input_amax;
  // The output tensors, in the order of layout->parts. `offset` is the weight's
  // first byte in the tensor; it is not 0 if experts stay stacked.
  struct Output {
    PartSource source = PartSource::kNothing;
    std::string name;
    size_t offset = 0;
    size_t size = 0;
  };
  std::vector<Output> outputs;

  // The safetensors type that ReadRows returns.
  std::string_view dtype() const {
    return stored || widened ? std::string_view("F32") : source->stored.dtype;
  }
  size_t size_bytes() const;  // size in the source, including scales
};

// Weights that share an amax.
struct FusedWeights {
  std::vector<Weight> weights;
};

// A quantized weight that is decoded to bf16, or single experts that become one
// stack.
struct DecodedWeight {
  StoredWeight stored;
  std::string name;  // name of the output tensor
  // All weights of a stack, including `stored`, expert by expert. The rows of
  // `joined` weights follow each other in each expert. Empty: no stack.
  std::vector<StoredWeight> experts = {};
  int64_t joined = 1;

  safetensors::Tensor tensor() const;
  absl::Span<const StoredWeight> weights() const {
    return experts.empty() ? absl::MakeConstSpan(&stored, 1)
                           : absl::MakeConstSpan(experts);
  }
};

// A matrix that is not quantized.
struct LeftOut {
  std::string module;
  Role role = Role::kLinear;
  std::string kind;    // plural noun for messages: "embeddings"
  std::string reason;  // why this matrix is left out
  uint64_t bytes = 0;  // size in the source; 0: not set
  bool asked = false;  // a pattern of the user's leaves it out
};

struct OutputShard {
  std::string name;
  std::vector<safetensors::Tensor> tensors;
  safetensors::Metadata metadata;
};

// A scale of an attention's cached keys or values.
struct CacheScale {
  std::string name;
  float value = 0;
};

struct ConversionPlan {
  Dialect dialect = Dialect::kNone;
  std::vector<FusedWeights> groups;
  std::vector<DecodedWeight> decoded;
  std::vector<const ModelTensor*> copies;  // copied byte for byte
  std::vector<CacheScale> cache_scales;
  // cache_scales, or copied tensors of the output, scale keys and values.
  bool scales_caches = false;
  std::vector<OutputShard> shards;  // the model's shards that are not empty
  std::vector<LeftOut> left_out;    // matrices that are not quantized
  std::vector<std::string> notes;
  bool torn = false;  // some fused weights differ in format
  // An engine builds unquantized layers of the model without a name, so a list
  // needs an entry for the empty name.
  bool leaves_nameless = false;
  // Decoded experts are single weights, but the class loads stacks only.
  bool experts_apart = false;
  uint64_t bytes_in = 0;  // size of all input tensors
  uint64_t quantized_bytes_in = 0;
  uint64_t bytes_out = 0;

  // The number of weights in each format.
  std::map<WeightFormat, size_t> formats() const;
  size_t weights() const;
};

// The `kind` of linear layers that are left out because the model's class is
// unknown.
inline constexpr char kOfOtherClass[] = "weights of an unknown model class";

// The error for a plan that quantizes nothing. It lists what is left out, by
// kind.
absl::Status NothingLeft(const std::string& path, const ConversionPlan& plan);

// Names of the first few modules left out for that kind, with '#' for numbers.
std::string FamiliesOf(std::string_view kind, const ConversionPlan& plan);

// The error for a model of the unknown class `name` without --include.
absl::Status UnknownClass(const std::string& path, const std::string& name,
                          const ConversionPlan& plan);

// INVALID_ARGUMENT if two output tensors have the same name.
absl::Status CheckNames(const std::string& path, const ConversionPlan& plan);

// Adds a note that `count` stored weights are decoded before quantizing.
void NoteStored(size_t count, const StoredWeight& first, ConversionPlan* plan);

// Adds a note about weights that are quantized because of --include although
// few engines support that.
void NoteIncluded(ConversionPlan* plan);

// Adds a note about weights that engines fuse although their formats differ.
void NoteTorn(const Model& model, const Architecture& architecture,
              ConversionPlan* plan);

// Adds a note about names that a training wrapper changed.
void NoteWrapped(const Model& model, ConversionPlan* plan);

// Adds a note about the copied scales of the KV cache.
void NoteCacheScales(ConversionPlan* plan);

// Adds a note about weights of that kind that are left out, if they are at
// least `least` percent of the model.
void NoteLeft(std::string_view kind, double least, ConversionPlan* plan);

// Sorts the tensors of each shard by element size, so that each is aligned to
// it as readers expect. Sets bytes_out.
void Arrange(ConversionPlan* plan);

// Plans a conversion from the headers of a model alone. INVALID_ARGUMENT if the
// model cannot be converted with this selection. The model must outlive the
// plan.
absl::StatusOr<ConversionPlan> MakeConversionPlan(const Model& model,
                                                  const Selection& selection);

// Plans the conversion of quantized weights back to bf16. INVALID_ARGUMENT if
// the model has no quantized weights, or has quantized weights that fit no
// dialect. The model must outlive the plan.
absl::StatusOr<ConversionPlan> MakeDecodingPlan(const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PLAN_H_
