// A quantizer like TransformerEngine's: a configuration that is set once and
// applied to many tensors.
//
//   quantd::QuantizerConfig config;             // NVFP4, both copies
//   config.options.rht.columnwise = true;       // for gradients
//   quantd::Quantizer quantizer(client, config);
//   quantizer.set_usage(true, false);
//   absl::StatusOr<quantd::QuantizedTensor> q =
//       quantizer.Quantize({quantd::DType::kBF16, {4096, 4096}}, bytes);
//
// Quantize refuses options that the format does not have before anything is
// sent. A table in WIRE.md lists the options of each format.
//
// Delayed scaling of FP8 tensors, step after step, where history[0] is the
// entry of the current step:
//
//   quantizer.set_delayed_scaling(scale, quantd::HistoryOptions{history});
//   auto q = quantizer.Quantize(tensor, bytes);
//   const auto rolled = q->as<float>(quantd::TensorKind::kAmaxHistory);
//   history.assign(rolled.begin(), rolled.end());
//   scale = q->as<float>(quantd::TensorKind::kNextScale)[0];
//
// If several processes reduce the amax, do not pass the history: reduce the
// amax of the copies and call UpdateScale of "quantd/delayed_scaling.h".
//
// Threads: any number of threads may call Quantize at once, while no set_
// function runs.
#ifndef QUANTD_QUANTIZER_H_
#define QUANTD_QUANTIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/client.h"
#include "quantd/delayed_scaling.h"
#include "quantd/format.h"
#include "quantd/plan.h"
#include "quantd/quantized_tensor.h"
#include "quantd/sign_mask.h"

namespace quantd {

// Values for amax_estimation_scale. A rotation enlarges an amax by at most
// sqrt(dimension), which is 4 for blocks of 16, so a factor of 4 never clips.
// Gaussian values need a far smaller factor.
inline constexpr float kActivationEstimation = 2.0f;
inline constexpr float kGradientEstimation = 1.0f;

// A new random seed for stochastic rounding.
uint64_t DrawSeed();

// An FP8 type by the name that TransformerEngine ("kFloat8E4M3"), JAX, PyTorch
// ("float8_e4m3fn") or this library ("e4m3") has for it; nullopt for an unknown
// name.
std::optional<DType> Fp8DTypeFromName(std::string_view name);

struct QuantizerConfig {
  // Options of every call. A rotation or an estimate of a copy that is not made
  // takes effect once set_usage adds that copy.
  QuantizeOptions options = {
      .format = Format::kNvfp4, .usage = Usage::kBoth, .rht = {}};

  // Rows and columns that share a scale; (0, 0): those of the format. Other
  // values select the format of the same family that has this block: with
  // kNvfp4 or kNvfp4Square (1, 16) or (16, 16); with FP8 block scaling (1, 128)
  // or (128, 128); with MX (1, 32).
  std::array<int, 2> block_dims = {0, 0};
  // The FP8 type of the codes, kE4M3 or kE5M2, which selects the format of the
  // same family. With NVFP4 it is the type of the block scales, which must be
  // kE4M3. Unspecified: the type of the format. Fp8DTypeFromName reads the
  // names of other libraries.
  DType fp8_dtype = DType::kUnspecified;
  // If set, random signs drawn from this seed replace the sign mask of
  // options.rht.
  std::optional<uint64_t> sign_seed = std::nullopt;
  // Draws a seed for every Quantize that rounds stochastically with the seed 0
  // in options.stochastic. The seed is drawn before anything is sent, so that a
  // retry gives the same bytes, and is in the tensor's options(). If false, 0
  // is a seed like any other.
  bool draw_seed = true;
};

class Quantizer {
 public:
  explicit Quantizer(std::shared_ptr<Client> client,
                     const QuantizerConfig& config = {});

  // Sets which copies are made. nullopt leaves a flag unchanged.
  void set_usage(std::optional<bool> rowwise, std::optional<bool> columnwise);
  // Sets the amax of each copy. Empty: the amax is computed.
  void set_amax(std::vector<float> rowwise, std::vector<float> columnwise);
  // Sets the scale to use and, optionally, the history to roll. With groups,
  // each has a scale and a history.
  void set_delayed_scaling(float scale, std::optional<HistoryOptions> history);
  void set_delayed_scaling(std::vector<float> scales,
                           std::optional<HistoryOptions> history);

  const QuantizerConfig& config() const { return config_; }
  // The configuration as options of Client::Quantize, with the seed if one is
  // drawn. INVALID_ARGUMENT for block_dims or an fp8_dtype that the format's
  // family does not have, for a value that is set twice, and if there would be
  // no output.
  absl::StatusOr<QuantizeOptions> options() const;

  // Quantizes a tensor. `input` holds its bytes, row-major; the caller owns
  // them.
  absl::StatusOr<QuantizedTensor> Quantize(const TensorDesc& tensor,
                                           absl::Span<const std::byte> input,
                                           const CallOptions& call = {}) const;

  // Quantizes fp32 values. K is the last dimension of `shape`.
  absl::StatusOr<QuantizedTensor> Quantize(absl::Span<const float> input,
                                           std::vector<int64_t> shape,
                                           const CallOptions& call = {}) const;

  // Quantizes groups of rows, each as if it were alone. `splits` has the number
  // of rows of each group. They add up to M, or to less with
  // options.partial_splits. QuantizedTensor::group views one group.
  absl::StatusOr<QuantizedTensor> QuantizeGroups(
      const TensorDesc& tensor, absl::Span<const std::byte> input,
      std::vector<int64_t> splits, const CallOptions& call = {}) const;

 private:
  absl::StatusOr<QuantizedTensor> Run(const TensorDesc& tensor,
                                      absl::Span<const std::byte> input,
                                      const QuantizeOptions& options,
                                      const CallOptions& call) const;

  std::shared_ptr<Client> client_;
  QuantizerConfig config_;
};

}  // namespace quantd

#endif  // QUANTD_QUANTIZER_H_
