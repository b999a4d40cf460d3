// Tables of how libraries store a quantized weight: the names, types and shapes
// of its tensors. Reading and writing checkpoints use the same rows.
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

// Format of a converted weight. Several may use one format of the service, with
// different scales or options.
enum class WeightFormat {
  kBf16,
  kNvfp4,
  kNvfp4FourOverSix,  // stored as kNvfp4, made with TransformerEngine's 4over6
  kNvfp4Search,       // stored as kNvfp4, made with scale_search
  kFp8,               // one scale for each tensor
  kFp8Dynamic,        // one scale for each row
  kFp8Block,          // one scale for each block of 128 x 128
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
  kScales,      // scales of blocks, rows or the tensor
  kGlobal,      // NVFP4's global scale
  kInputScale,  // scale of the activations, if they were measured
  kLabel,       // kComfyLabel, which marks a layer for ComfyUI
};
inline constexpr std::string_view kComfyLabel = R"({"format": "nvfp4"})";

// One tensor of a stored weight.
struct StoredPart {
  PartSource source = PartSource::kNothing;
  // appended to the module's name to get the tensor's name
  std::string_view suffix = {};
  std::string_view dtype = {};  // the type's name in safetensors
  std::string_view also = {};   // an alternative suffix
};

// Shape of the scales of an N x K weight.
enum class ScaleShape : uint8_t {
  kScalar,  // []
  kOne,     // [1]
  kColumn,  // [N, 1]
  kBlocks,  // [N / rows of a block, K / columns of a block]
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
  quantd::Format codes;  // the service's name for the format
  Profile profile;       // the default profile
  ScaleShape scale_shape;
  Global global = Global::kNone;
  ScaleShape global_shape = ScaleShape::kScalar;
  // The first part replaces "<module>.weight".
  std::array<StoredPart, 4> parts = {};
  // Whether engines require a scale of the activations in the file.
  bool needs_input_scale = false;
  // Whether a byte of E2M1 has the even element in its high half.
  bool high_half_first = false;
  bool swizzled = false;
  // Whether all experts of a layer are one tensor, with a dimension for blocks.
  bool stacked = false;
  bool four_over_six = false;
  bool scale_search = false;
};

// Returns nullptr if the dialect does not have the format.
const WeightLayout* FindLayout(Dialect dialect, WeightFormat format);
// Returns INVALID_ARGUMENT if the dialect does not have the format. The message
// lists the dialect's formats and the dialects with the format.
absl::StatusOr<const WeightLayout*> LayoutOf(Dialect dialect,
                                             WeightFormat format);
// All rows of the table.
const std::vector<WeightLayout>& AllLayouts();

// The options of a service call that quantizes for the layout.
QuantizeOptions OptionsOf(const WeightLayout& layout, Profile profile);
// INVALID_ARGUMENT if the profile does not have the format, or writes another
// kind of global scale or order of halves than the dialect.
absl::Status CheckProfileOf(const WeightLayout& layout, Profile profile);
// The elements that share a scale, like {1, 16}. {0, 0} stands for the whole
// tensor and {1, 0} for a row.
struct BlockShape {
  int64_t rows = 0;
  int64_t cols = 0;
};
BlockShape BlockOf(const WeightLayout& layout);
bool IsFourBits(const WeightLayout& layout);
// Whether the scales of fused weights depend on their common amax.
bool NeedsAmax(const WeightLayout& layout);
// Shape of one part of an N x K weight.
std::vector<int64_t> ShapeOf(const WeightLayout& layout, PartSource source,
                             int64_t rows, int64_t cols);
// The format under which files and configurations store this one.
WeightFormat StoredAs(WeightFormat format);
// Converts an amax to the stored global scale; AmaxOf does the reverse.
float GlobalOf(Global rule, float amax);
// Converts for a layout, whose largest block scale may be below 448.
float GlobalOf(const WeightLayout& layout, float amax);
float AmaxOf(Global rule, float global);
// The stored input scale for the largest magnitude of a module's inputs.
float InputScaleOf(Global rule, float amax);
// Whether `x` is a number of F16 or BF16, up to two roundings in fp32.
bool IsOf16Bits(double x);
// Whether this stored global scale, which is > 0, is the reciprocal of the
// right one: it implies an unusually large amax, and only its reciprocal
// implies an amax or a divisor that a 16-bit weight can have. If neither or
// both do, as in fp32 models, `all_large` decides: whether most weights of the
// model are so large.
bool IsReciprocal(Global rule, float global, bool all_large);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_DIALECT_H_
