#include "client/checkpoint/check/guess.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"
#include "kernels/arith/copy_address.h"
#include "kernels/plan/geometry.h"

namespace quantd::checkpoint {
namespace {

// Endings of the names of codes in any library. The lists below are for other
// parts.
constexpr std::string_view kCodes[] = {".weight_packed", ".weight",
                                       ".weight.rowwise_data"};
constexpr std::string_view kScales[] = {".weight_scale", ".weight_scale_inv",
                                        ".weight.rowwise_scale", ".scales",
                                        ".scale"};
struct GlobalName {
  std::string_view suffix;
  Global rule;  // kNone: the tensor holds the amax itself
};
constexpr GlobalName kGlobals[] = {
    {".weight_scale_2", Global::kMultiplier},
    {".weight_global_scale", Global::kDivisor},
    {".weight.rowwise_amax", Global::kNone},
};

template <typename List>
const ModelTensor* FindAny(const Model& model, const std::string& module,
                           const List& suffixes) {
  for (const std::string_view suffix : suffixes) {
    if (const auto* t = model.Find(module + std::string(suffix))) return t;
  }
  return nullptr;
}

bool IsByte(std::string_view dtype) {
  return dtype == "U8" || dtype == "I8" || dtype == "F8_E8M0";
}

// The format according to the types and shapes of codes and scales.
std::optional<WeightFormat> FormatOf(const ModelTensor& codes,
                                     const ModelTensor& scales, bool global) {
  const bool fp8 = codes.stored.dtype == "F8_E4M3";
  if (!fp8 && !IsByte(codes.stored.dtype)) return std::nullopt;
  if (scales.stored.dtype == "F8_E4M3") {
    return !fp8 && global ? std::optional(WeightFormat::kNvfp4) : std::nullopt;
  }
  // NVFP4, with block scales stored in a generic byte type.
  if (global && !fp8 && scales.stored.dtype != "F8_E8M0" &&
      IsByte(scales.stored.dtype)) {
    return WeightFormat::kNvfp4;
  }
  if (IsByte(scales.stored.dtype)) {
    const auto squares =
        static_cast<size_t>(CeilDiv(codes.stored.shape[0], 128) *
                            CeilDiv(codes.stored.shape[1], 128));
    if (fp8 && scales.stored.size == squares) return WeightFormat::kFp8Block;
    return fp8 ? WeightFormat::kMxfp8 : WeightFormat::kMxfp4;
  }
  if (!fp8) return std::nullopt;
  const auto element =
      static_cast<size_t>(safetensors::BitsOf(scales.stored.dtype) / 8);
  const auto count = static_cast<int64_t>(scales.stored.size / element);
  if (count == 1) return WeightFormat::kFp8;
  return count == codes.stored.shape[0] ? WeightFormat::kFp8Dynamic
                                        : WeightFormat::kFp8Block;
}

// The order of padded scales. Padding is zero, so its position reveals the
// order.
absl::StatusOr<ScaleOrder> OrderOf(const Model& model, const ModelTensor& t,
                                   int64_t down, int64_t across) {
  std::vector<std::byte> bytes(t.stored.size);
  if (auto s = model.Read(t, 0, absl::MakeSpan(bytes)); !s.ok()) return s;
  const int64_t line = RoundUp(across, 4);
  std::vector<bool> linear(bytes.size());
  std::vector<bool> swizzled(bytes.size());
  for (int64_t i = 0; i < down; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      linear[static_cast<size_t>(i * line + j)] = true;
      swizzled[static_cast<size_t>(SwizzledIndex(i, j, across))] = true;
    }
  }
  bool is_linear = true;
  bool is_swizzled = true;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == std::byte{0}) continue;
    is_linear &= linear[i];
    is_swizzled &= swizzled[i];
  }
  if (is_linear != is_swizzled) {
    return is_linear ? ScaleOrder::kPadded : ScaleOrder::kSwizzled;
  }
  return absl::InvalidArgumentError(
      "its scales are padded, but it is unknown whether they are swizzled");
}

const WeightLayout* ChooseLayout(Dialect dialect, WeightFormat format) {
  if (dialect != Dialect::kNone) return FindLayout(dialect, format);
  for (const WeightLayout& layout : AllLayouts()) {
    if (layout.format == format && !layout.stacked && !layout.swizzled) {
      return &layout;
    }
  }
  return nullptr;
}

absl::Status GuessScales(const Model& model, Guess* guess) {
  StoredWeight& w = guess->weight;
  const ModelTensor& scales = *w.part(PartSource::kScales);
  const auto want = ShapeOf(*w.layout, PartSource::kScales, w.rows, w.cols);
  const size_t element =
      static_cast<size_t>(safetensors::BitsOf(scales.stored.dtype) / 8);
  size_t count = 1;
  for (const int64_t d : want) count *= static_cast<size_t>(d);
  if (scales.stored.size == count * element) {
    const std::vector<int64_t> turned(want.rbegin(), want.rend());
    if (want != turned && scales.stored.shape == turned) {
      return absl::InvalidArgumentError(fmt::format(
          "{} has the right size, but its rows and columns are swapped",
          scales.name()));
    }
    const auto order = OrderOfScales(model, w);
    if (!order.ok()) return order.status();
    guess->order = *order;
    return absl::OkStatus();
  }
  const BlockShape block = BlockOf(*w.layout);
  const bool one_byte = element == 1 && block.cols > 0 && block.rows == 1;
  const int64_t across = one_byte ? CeilDiv(w.cols, block.cols) : 0;
  if (one_byte && w.layout->swizzled &&
      static_cast<int64_t>(scales.stored.size) == w.rows * across) {
    guess->order = ScaleOrder::kLinear;
    guess->oddities.push_back(fmt::format(
        "its {} scales are stored row by row instead of {} in swizzled order",
        scales.stored.size, count));
    return absl::OkStatus();
  }
  if (!one_byte || static_cast<int64_t>(scales.stored.size) !=
                       RoundUp(w.rows, 128) * RoundUp(across, 4)) {
    return absl::InvalidArgumentError(fmt::format(
        "it has {} scales, but needs {}", scales.stored.size / element, count));
  }
  const auto order = OrderOf(model, scales, w.rows, across);
  if (!order.ok()) return order.status();
  guess->order = *order;
  guess->oddities.push_back(*order == ScaleOrder::kPadded
                                ? "its scales are padded"
                                : "its scales are swizzled");
  return absl::OkStatus();
}

// Reads the global scale. A multiplier that must be the reciprocal of the right
// one is read as a divisor, and vice versa.
absl::Status GuessGlobal(const Model& model, const ModelTensor& t, Global rule,
                         Guess* guess) {
  const Global want = guess->weight.layout->global;
  const auto numbers = ReadNumbers(model, t);
  if (!numbers.ok()) return numbers.status();
  if (numbers->size() != 1 || !std::isfinite(numbers->front()) ||
      numbers->front() <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a positive number", t.name()));
  }
  const float number = numbers->front();
  if (rule == Global::kNone) {
    guess->global = GlobalOf(want, number);
    return absl::OkStatus();
  }
  const bool other = IsReciprocal(rule, number, /*all_large=*/false);
  const bool divisor = (rule == Global::kDivisor) != other;
  guess->global =
      divisor == (want == Global::kDivisor) ? number : 1.0f / number;
  if (other) {
    guess->oddities.push_back(
        fmt::format("its global scale is a {}",
                    rule == Global::kDivisor ? "multiplier" : "divisor"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view RuleOfOrder(const Guess& guess, std::string_view otherwise) {
  const bool swizzled = guess.weight.layout->swizzled;
  if (guess.order == (swizzled ? ScaleOrder::kSwizzled : ScaleOrder::kLinear)) {
    return otherwise;
  }
  return guess.order == ScaleOrder::kPadded && !swizzled ? "padded-scales"
                                                         : "swizzled-scales";
}

absl::StatusOr<ScaleOrder> OrderOfScales(const Model& model,
                                         const StoredWeight& w) {
  if (!w.layout->swizzled) return ScaleOrder::kLinear;
  const int64_t across = CeilDiv(w.cols, BlockOf(*w.layout).cols);
  if (w.rows % 128 == 0 && across % 4 == 0) return ScaleOrder::kSwizzled;
  const auto order =
      OrderOf(model, *w.part(PartSource::kScales), w.rows, across);
  // The padding does not reveal the order.
  if (absl::IsInvalidArgument(order.status())) return ScaleOrder::kSwizzled;
  return order;
}

bool IsOfAnother(const StoredWeight& w, Dialect configured) {
  if (w.layout->dialect == configured ||
      (configured != Dialect::kCompressedTensors &&
       configured != Dialect::kModelOpt)) {
    return false;
  }
  const WeightLayout* own = FindLayout(configured, w.layout->format);
  if (own == nullptr) return true;
  // Accepts parts of shape [1] in place of [].
  for (size_t i = 0; i < own->parts.size(); ++i) {
    if (own->parts[i].source != PartSource::kInputScale &&
        own->parts[i].suffix != w.layout->parts[i].suffix &&
        w.parts[i] != nullptr) {
      return true;
    }
  }
  return false;
}

Dialect LikelyDialect(const Model& model, const StoredModel& stored) {
  const bool stacks =
      !stored.weights.empty() &&
      std::ranges::all_of(stored.weights, [](const StoredWeight& w) {
        return w.layout->dialect == Dialect::kGptOss;
      });
  if (stacks) return Dialect::kGptOss;
  const Dialect configured = ConfiguredDialect(model.config());
  if (configured != Dialect::kNone) return configured;
  if (HasComfyLabels(model)) return Dialect::kComfy;
  // If there is a configuration, engines swizzle the scales themselves.
  const bool swizzled =
      !model.has_config() &&
      std::ranges::any_of(stored.unclear, [&](const UnclearWeight& u) {
        const auto guess = GuessWeight(model, u.module, Dialect::kNone);
        return guess.ok() && guess->order == ScaleOrder::kSwizzled;
      });
  return swizzled ? Dialect::kComfy : Dialect::kNone;
}

absl::StatusOr<Guess> GuessWeight(const Model& model, const std::string& module,
                                  Dialect dialect) {
  const ModelTensor* codes = FindAny(model, module, kCodes);
  const ModelTensor* scales = FindAny(model, module, kScales);
  if (model.Find(module + "_blocks") && !model.Find(module + "_scales")) {
    return absl::NotFoundError("it has no scales");
  }
  if (codes == nullptr || codes->stored.shape.size() != 2) {
    return absl::InvalidArgumentError(
        "it has no matrix of codes with a known name");
  }
  if (codes->stored.dtype != "F8_E4M3" && !IsByte(codes->stored.dtype)) {
    return absl::InvalidArgumentError(fmt::format(
        "codes of type {} belong to no known format", codes->stored.dtype));
  }
  if (IsOfQuark(model.config()) && IsByte(codes->stored.dtype)) {
    return absl::InvalidArgumentError(
        "config.json names Quark, of which only FP8 is known");
  }
  if (scales == nullptr) {
    const ModelTensor* other = nullptr;
    for (const char* end : {".qscale_weight", ".scale_weight", ".scale"}) {
      if (other == nullptr) other = model.Find(module + end);
    }
    if (other == nullptr) return absl::NotFoundError("it has no scales");
    return absl::InvalidArgumentError(fmt::format(
        "its scales may be {}, but their type {} fits no known dialect",
        other->name(), other->stored.dtype));
  }
  const ModelTensor* global = nullptr;
  Global rule = Global::kNone;
  for (const GlobalName& name : kGlobals) {
    const auto* t = model.Find(module + std::string(name.suffix));
    if (t == nullptr) continue;
    global = t;
    rule = name.rule;
    break;
  }
  if (scales->stored.dtype == "F8_E4M3" && global == nullptr) {
    return absl::NotFoundError("it has no global scale");
  }
  auto format = FormatOf(*codes, *scales, global != nullptr);
  // A weight that fits in one block has a single scale, like kFp8.
  if (format == WeightFormat::kFp8 && dialect == Dialect::kDeepSeek &&
      scales->stored.shape.size() == 2) {
    format = WeightFormat::kFp8Block;
  }
  if (!format) {
    return absl::InvalidArgumentError(fmt::format(
        "codes of type {} with scales of type {} belong to no known format",
        codes->stored.dtype, scales->stored.dtype));
  }
  Guess guess;
  StoredWeight& w = guess.weight;
  w.layout = ChooseLayout(dialect, *format);
  if (w.layout == nullptr || w.layout->stacked) {
    return absl::InvalidArgumentError(fmt::format(
        "{} does not have the format {}", Name(dialect), Name(*format)));
  }
  w.module = module;
  const bool half = IsFourBits(*w.layout);
  w.rows = codes->stored.shape[0];
  w.cols = codes->stored.shape[1] * (half ? 2 : 1);
  for (size_t i = 0; i < w.parts.size(); ++i) {
    const StoredPart& part = w.layout->parts[i];
    const std::string name = module + std::string(part.suffix);
    switch (part.source) {
      case PartSource::kCodes:
        w.parts[i] = codes;
        break;
      case PartSource::kScales:
        w.parts[i] = scales;
        break;
      case PartSource::kGlobal:
        w.parts[i] = global;
        break;
      case PartSource::kInputScale:
      case PartSource::kLabel:
        w.parts[i] = model.Find(name);
        break;
      case PartSource::kNothing:
        break;
    }
    const ModelTensor* t = w.parts[i];
    if (t == nullptr || part.source == PartSource::kInputScale) continue;
    if (t->name() != name) {
      guess.oddities.push_back(
          fmt::format("{} should be named {}", t->name(), name));
    } else if (t->stored.dtype != part.dtype && part.dtype != "F32") {
      guess.oddities.push_back(fmt::format("{} has the type {} instead of {}",
                                           name, t->stored.dtype, part.dtype));
    }
  }
  if (auto s = GuessScales(model, &guess); !s.ok()) return s;
  if (global != nullptr && w.layout->global != Global::kNone) {
    if (auto s = GuessGlobal(model, *global, rule, &guess); !s.ok()) return s;
  }
  return guess;
}

}  // namespace quantd::checkpoint
