// What converting a model comes to: which tensors are quantized how, which
// share an amax, which are copied, and what lies in which file in the end.
// client/checkpoint/planner.h makes it.
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
  std::vector<std::string> only = {};     // of those that are taken: no others
  std::vector<std::string> ignore = {};   // left as they are
  std::vector<std::string> include = {};  // taken whatever part they play
  std::vector<std::string> rules =
      {};  // "PATTERN=FORMAT", the first that matches
  std::vector<std::string> fuse = {};  // "q_proj,k_proj,v_proj"
  // Whose arithmetic; none: that of the dialect's library.
  std::optional<Profile> profile = {};
  // The largest magnitude that comes into a module.
  std::map<std::string, float> input_amax = {};
};

// Bytes of a tensor of that type, as safetensors names it.
size_t SizeOfShape(std::string_view dtype, const std::vector<int64_t>& shape);

// A matrix of N x K to quantize, and where it lies in a tensor.
struct Weight {
  std::string module;  // "model.layers.0.mlp.down_proj"
  Role role = Role::kLinear;
  const ModelTensor* source = nullptr;
  size_t offset = 0;        // bytes, of the first element
  size_t pitch = 0;         // bytes from one stored row to the next
  bool transposed = false;  // K rows of N are stored
  int64_t rows = 0;         // N
  int64_t cols = 0;         // K
  // One that is quantized already: it comes in decoded, as fp32.
  std::optional<StoredWeight> stored;
  // Comes in as fp32, too: one that it shares an amax with has another type,
  // and libraries compute global scales in the type of the weight.
  bool widened = false;
  const WeightLayout* layout = nullptr;
  Profile profile = Profile::kTe;
  std::optional<float> input_amax;
  // The tensors that it becomes, in the order of layout->parts, and where in
  // them it begins: not 0 where experts stay stacked.
  struct Output {
    PartSource source = PartSource::kNothing;
    std::string name;
    size_t offset = 0;
    size_t size = 0;
  };
  std::vector<Output> outputs;

  // The type that it comes in.
  std::string_view dtype() const {
    return stored || widened ? std::string_view("F32") : source->stored.dtype;
  }
  size_t size_bytes() const;  // in the model, scales and all
};

// Weights with one amax.
struct FusedWeights {
  std::vector<Weight> weights;
};

// A quantized weight that becomes bf16 numbers again.
struct DecodedWeight {
  StoredWeight stored;
  std::string name;  // of the tensor that it becomes

  safetensors::Tensor tensor() const;
};

// A matrix that stays as it is.
struct LeftOut {
  std::string module;
  Role role = Role::kLinear;
  std::string kind;    // what those like it are: "embeddings"
  std::string reason;  // of this one
  uint64_t bytes = 0;  // 0: nobody asks
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
  std::vector<OutputShard> shards;         // those of the model, if not empty
  std::vector<LeftOut> left_out;           // matrices that are copied
  std::vector<std::string> notes;
  bool torn = false;      // what engines fuse has more than one format
  uint64_t bytes_in = 0;  // of all tensors
  uint64_t quantized_bytes_in = 0;
  uint64_t bytes_out = 0;

  // The formats that occur, and how many weights have each.
  std::map<WeightFormat, size_t> formats() const;
  size_t weights() const;
};

// All that may be a linear layer, of a model that nobody knows here.
inline constexpr char kOfOtherClass[] =
    "weights of a class of model that is not known here";

// The error of a plan that quantizes nothing: what stays as it is, by kind.
absl::Status NothingLeft(const std::string& path, const ConversionPlan& plan);

// The first few names of what stays for that reason, one for all layers.
std::string FamiliesOf(std::string_view kind, const ConversionPlan& plan);

// The error of a model of a class that is not known here, of which the user
// names nothing; `name`: of the class.
absl::Status UnknownClass(const std::string& path, const std::string& name,
                          const ConversionPlan& plan);

// INVALID_ARGUMENT for two tensors of one name.
absl::Status CheckNames(const std::string& path, const ConversionPlan& plan);

// Notes that so many weights come in decoded.
void NoteStored(size_t count, const StoredWeight& first, ConversionPlan* plan);

// Notes weights that --include took and few engines build quantized.
void NoteIncluded(ConversionPlan* plan);

// Notes weights that engines fuse and that would not all have one format.
void NoteTorn(const Model& model, const Architecture& architecture,
              ConversionPlan* plan);

// Notes names that engines do not find.
void NoteWrapped(const Model& model, ConversionPlan* plan);

// Notes the copied scales of the KV cache.
void NoteCacheScales(ConversionPlan* plan);

// Notes how much of the model those of that kind are that stay as they are, if
// it is at least so many percent.
void NoteLeft(std::string_view kind, double least, ConversionPlan* plan);

// Puts the tensors of shards into the order in which each begins at a multiple
// of its elements, as readers want it, and adds up bytes_out.
void Arrange(ConversionPlan* plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PLAN_H_
