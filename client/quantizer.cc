#include "quantd/quantizer.h"

#include <random>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kernels/plan/plan_checks.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

using BlockDims = std::array<int, 2>;

BlockDims DimsOf(const FormatSpec& f) {
  return {f.square ? f.block : 1, f.block};
}

Usage UsageOf(bool rowwise, bool columnwise) {
  return rowwise && columnwise ? Usage::kBoth
         : rowwise             ? Usage::kRowwise
         : columnwise          ? Usage::kColumnwise
                               : Usage::kNone;
}

// The format with the same elements and scaling as `format`, but these blocks.
absl::StatusOr<Format> WithBlocks(Format format, const BlockDims& dims) {
  const FormatSpec* named = FindFormat(format);
  // MakeQuantizePlan refuses an unknown format.
  if (named == nullptr || dims == BlockDims{0, 0}) return format;
  std::string legal = "(0, 0)";
  for (const FormatSpec& f : kFormats) {
    if (f.scaling != named->scaling || f.element != named->element ||
        f.block == 0) {
      continue;
    }
    const BlockDims has = DimsOf(f);
    if (has == dims) return f.format;
    legal += fmt::format(" or ({}, {})", has[0], has[1]);
  }
  return FieldError("block_dims", fmt::format("{} with {}", legal, named->name),
                    fmt::format("({}, {})", dims[0], dims[1]));
}

// The format with the same blocks and scaling as `format`, but this FP8 type.
absl::StatusOr<Format> WithFp8(Format format, DType type) {
  const FormatSpec* named = FindFormat(format);
  if (named == nullptr || type == DType::kUnspecified) return format;
  std::string legal;
  const auto has = [&](Format found, DType its) -> std::optional<Format> {
    if (its == type) return found;
    legal += fmt::format("{} or ", Name(its));
    return std::nullopt;
  };
  if (named->scaling == Scaling::kNvfp4) {
    if (const auto f = has(format, named->scale)) return *f;
  } else if (named->element != DType::kE2M1x2) {
    for (const FormatSpec& f : kFormats) {
      if (f.scaling != named->scaling || f.square != named->square ||
          f.element == DType::kE2M1x2) {
        continue;
      }
      if (const auto found = has(f.format, f.element)) return *found;
    }
  }
  return FieldError("fp8_dtype",
                    fmt::format("{}none with {}", legal, named->name),
                    NameOrNumber(type));
}

}  // namespace

std::optional<DType> Fp8DTypeFromName(std::string_view name) {
  for (std::string_view e4m3 : {"e4m3", "float8_e4m3fn", "kFloat8E4M3"}) {
    if (name == e4m3) return DType::kE4M3;
  }
  for (std::string_view e5m2 : {"e5m2", "float8_e5m2", "kFloat8E5M2"}) {
    if (name == e5m2) return DType::kE5M2;
  }
  return std::nullopt;
}

uint64_t DrawSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

Quantizer::Quantizer(std::shared_ptr<Client> client,
                     const QuantizerConfig& config)
    : client_(std::move(client)), config_(config) {}

void Quantizer::set_usage(std::optional<bool> rowwise,
                          std::optional<bool> columnwise) {
  Usage& usage = config_.options.usage;
  usage = UsageOf(rowwise.value_or(HasRowwise(usage)),
                  columnwise.value_or(HasColumnwise(usage)));
}

void Quantizer::set_amax(std::vector<float> rowwise,
                         std::vector<float> columnwise) {
  config_.options.rowwise_amax = std::move(rowwise);
  config_.options.columnwise_amax = std::move(columnwise);
}

void Quantizer::set_delayed_scaling(float scale,
                                    std::optional<HistoryOptions> history) {
  set_delayed_scaling(std::vector<float>{scale}, std::move(history));
}

void Quantizer::set_delayed_scaling(std::vector<float> scales,
                                    std::optional<HistoryOptions> history) {
  config_.options.fp8.scale = std::move(scales);
  config_.options.fp8.history = std::move(history);
}

absl::StatusOr<QuantizeOptions> Quantizer::options() const {
  QuantizeOptions o = config_.options;
  const auto typed = WithFp8(o.format, config_.fp8_dtype);
  if (!typed.ok()) return typed.status();
  const auto format = WithBlocks(*typed, config_.block_dims);
  if (!format.ok()) return format.status();
  o.format = *format;
  if (o.usage == Usage::kNone && !o.dbias && !o.want_amax) {
    return FieldError("usage", "rowwise, columnwise or both", "neither");
  }
  if (o.rht.sign_mask && config_.sign_seed) {
    return FieldError("sign_seed", "sign_mask or sign_seed", "both");
  }
  // MakeQuantizePlan refuses an illegal dimension.
  if (config_.sign_seed && o.rht.dimension >= 16) {
    o.rht.sign_mask = RandomSignMask(*config_.sign_seed, o.rht.dimension);
  }
  // Rotates no copy that set_usage has turned off. config_ keeps the setting
  // for calls that make the copy again.
  const bool configured = o.rht.rowwise || o.rht.columnwise;
  o.rht.rowwise &= HasRowwise(o.usage);
  o.rht.columnwise &= HasColumnwise(o.usage);
  if (configured && !o.rht.rowwise && !o.rht.columnwise) {
    o.rht = {};
    o.nvfp4.amax_estimation_scale.reset();
  }
  if (!o.splits) o.partial_splits = false;  // only for QuantizeGroups
  if (o.rounding == Rounding::kStochastic && o.stochastic.seed == 0 &&
      config_.draw_seed) {
    o.stochastic.seed = DrawSeed();
  }
  return o;
}

absl::StatusOr<QuantizedTensor> Quantizer::Run(
    const TensorDesc& tensor, absl::Span<const std::byte> input,
    const QuantizeOptions& options, const CallOptions& call) const {
  auto result = client_->Quantize(tensor, input, options, call);
  if (!result.ok()) return result.status();
  return QuantizedTensor::FromResult(tensor, options, *std::move(result));
}

absl::StatusOr<QuantizedTensor> Quantizer::Quantize(
    const TensorDesc& tensor, absl::Span<const std::byte> input,
    const CallOptions& call) const {
  const auto options = this->options();
  if (!options.ok()) return options.status();
  return Run(tensor, input, *options, call);
}

absl::StatusOr<QuantizedTensor> Quantizer::Quantize(
    absl::Span<const float> input, std::vector<int64_t> shape,
    const CallOptions& call) const {
  return Quantize({DType::kF32, std::move(shape)},
                  {reinterpret_cast<const std::byte*>(input.data()),
                   input.size() * sizeof(float)},
                  call);
}

absl::StatusOr<QuantizedTensor> Quantizer::QuantizeGroups(
    const TensorDesc& tensor, absl::Span<const std::byte> input,
    std::vector<int64_t> splits, const CallOptions& call) const {
  auto options = this->options();
  if (!options.ok()) return options.status();
  options->splits = std::move(splits);
  options->partial_splits = config_.options.partial_splits;
  return Run(tensor, input, *options, call);
}

}  // namespace quantd
