#include "client/quantizer.h"

#include <utility>

#include "fmt/format.h"
#include "kernels/field_error.h"

namespace quantd {

Quantizer::Quantizer(std::shared_ptr<Client> client,
                     const QuantizerConfig& config)
    : client_(std::move(client)), config_(config) {}

void Quantizer::set_usage(std::optional<bool> rowwise,
                          std::optional<bool> columnwise) {
  config_.rowwise = rowwise.value_or(config_.rowwise);
  config_.columnwise = columnwise.value_or(config_.columnwise);
}

void Quantizer::set_amax(std::optional<float> rowwise,
                         std::optional<float> columnwise) {
  config_.rowwise_amax = rowwise;
  config_.columnwise_amax = columnwise;
}

absl::StatusOr<QuantizeOptions> Quantizer::options() const {
  if (config_.block_dims != std::array<int, 2>{1, 16}) {
    return FieldError(
        "block_dims", "(1, 16)",
        fmt::format("({}, {})", config_.block_dims[0], config_.block_dims[1]));
  }
  if (!config_.rowwise && !config_.columnwise) {
    return FieldError("usage", "rowwise, columnwise or both", "neither");
  }
  QuantizeOptions options;
  options.format = config_.format;
  options.usage = config_.rowwise && config_.columnwise ? Usage::kBoth
                  : config_.rowwise                     ? Usage::kRowwise
                                                        : Usage::kColumnwise;
  options.rht.rowwise = config_.with_rowwise_rht;
  options.rht.columnwise = config_.with_rht;
  options.rht.sign_mask = config_.sign_mask;
  options.non_finite = config_.non_finite;
  options.rowwise_amax = config_.rowwise_amax;
  options.columnwise_amax = config_.columnwise_amax;
  return options;
}

absl::StatusOr<QuantizedTensor> Quantizer::Quantize(
    const TensorDesc& tensor, absl::Span<const std::byte> input,
    const CallOptions& call) const {
  const auto options = this->options();
  if (!options.ok()) return options.status();
  auto result = client_->Quantize(tensor, input, *options, call);
  if (!result.ok()) return result.status();
  return QuantizedTensor::FromResult(tensor, *options, *std::move(result));
}

absl::StatusOr<QuantizedTensor> Quantizer::Quantize(
    absl::Span<const float> input, std::vector<int64_t> shape,
    const CallOptions& call) const {
  return Quantize({DType::kF32, std::move(shape)},
                  {reinterpret_cast<const std::byte*>(input.data()),
                   input.size() * sizeof(float)},
                  call);
}

}  // namespace quantd
