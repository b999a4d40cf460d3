// Tables of how libraries store a quantized weight: the names, types and shapes
// of its tensors. Writing and reading checkpoints use the same rows.
#ifndef QUANTD_CLIENT_CHECKPOINT_DIALECT_H_
#define QUANTD_CLIENT_CHECKPOINT_DIALECT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "quantd/format.h"
#include "quantd/options.h"

namespace quantd::checkpoint {

enum class Dialect {
  kNone,  // not quantized
  kCompressedTensors,
  kModelOpt,
  kDeepSeek,
  kGptOss,
  kComfy,
};

// Format of a converted weight. Some are a format of the service with other
// scales or options.
enum class WeightFormat {
  kBf16,
  kNvfp4,
  kNvfp4FourOverSix,  // stored as kNvfp4, made with TransformerEngine's 4over6
  kFp8,               // one scale for the tensor
  kFp8Dynamic,        // one scale for each row
  kFp8Block,          // one scale for 128 x 128
  kMxfp8,
  kMxfp4,
};

std::string_view Name(Dialect d);
std::string_view Name(WeightFormat f);
std::optional<Dialect> ParseDialect(std::string_view name);
std::optional<WeightFormat> ParseWeightFormat(std::string_view name);
std::string DialectNames();
std::string WeightFormatNames();

enum class PartSource : uint8_t {
  kNothing,
  kCodes,
  kScales,      // of blocks, rows or the tensor: linear, unpadded
  kGlobal,      // NVFP4's global scale
  kInputScale,  // of the activations, if measured
  kLabel,       // kComfyLabel, which marks a layer for ComfyUI
};
inline constexpr std::string_view kComfyLabel = R"({"format": "nvfp4"})";

// One tensor of a stored weight.
struct StoredPart {
  PartSource source = PartSource::kNothing;
  std::string_view suffix = {};  // appended to the module's name
  std::string_view dtype = {};   // as safetensors names it
  std::string_view also = {};    // an alternative suffix
};

// Shape of the scales of an N x K weight.
enum class ScaleShape : uint8_t {
  kScalar,  // []
  kOne,     // [1]
  kColumn,  // [N, 1]
  kBlocks,  // [N / rows, K / columns of a block]
};

// How a library stores the global scale of a weight with amax A.
enum class Global : uint8_t {
  kNone,
  kMultiplier,  // A / 2688
  kDivisor,     // 2688 / A
};

// How a dialect stores weights of a format.
struct WeightLayout {
  Dialect dialect;
  WeightFormat format;
  quantd::Format codes;  // the service's name for it
  Profile profile;       // the default profile
  ScaleShape scale_shape;
  Global global = Global::kNone;
  ScaleShape global_shape = ScaleShape::kScalar;
  // The first replaces "<module>.weight".
  std::array<StoredPart, 4> parts = {};
  // Engines require a scale of activations in the file.
  bool needs_input_scale = false;
  // E2M1: the even element is in the high half of the byte.
  bool high_half_first = false;
  bool swizzled = false;
  // Experts of one layer stay one tensor, with their blocks as a dimension.
  bool stacked = false;
  bool four_over_six = false;
};

// Returns nullptr if no library has the pair.
const WeightLayout* FindLayout(Dialect dialect, WeightFormat format);
// Returns INVALID_ARGUMENT, listing the existing pairs, if no library has this
// one.
absl::StatusOr<const WeightLayout*> LayoutOf(Dialect dialect,
                                             WeightFormat format);
// All rows of the table.
const std::vector<WeightLayout>& AllLayouts();

// The service's options for the layout.
QuantizeOptions OptionsOf(const WeightLayout& layout, Profile profile);
// INVALID_ARGUMENT if the profile stores another kind of global scale than the
// dialect, or does not have the format.
absl::Status CheckProfileOf(const WeightLayout& layout, Profile profile);
// Elements that share a scale: {1, 16}; {0, 0} for all, {1, 0} for a row.
struct BlockShape {
  int64_t rows = 0;
  int64_t cols = 0;
};
BlockShape BlockOf(const WeightLayout& layout);
// Whether the scales depend on the amax of all fused weights together.
bool NeedsAmax(const WeightLayout& layout);
// Shape of one part of an N x K weight.
std::vector<int64_t> ShapeOf(const WeightLayout& layout, PartSource source,
                             int64_t rows, int64_t cols);
// The format that files and configurations name for it.
WeightFormat StoredAs(WeightFormat format);
// Convert between an amax and the stored global scale.
float GlobalOf(Global rule, float amax);
// For a layout, whose largest block scale may be smaller.
float GlobalOf(const WeightLayout& layout, float amax);
float AmaxOf(Global rule, float global);
// Stored scale for the largest magnitude of a module's inputs.
float InputScaleOf(Global rule, float amax);
// Whether a stored global scale > 0 is possible for a model's weight.
bool IsPlausible(Global rule, float global);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_DIALECT_H_
