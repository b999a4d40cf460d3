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
// sent; the table in WIRE.md lists them.
//
// Delayed scaling of FP8 tensors, step after step, history[0] being the slot
// of the step at hand:
//
//   quantizer.set_delayed_scaling(scale, quantd::HistoryOptions{history});
//   auto q = quantizer.Quantize(tensor, bytes);
//   const auto rolled = q->as<float>(quantd::TensorKind::kAmaxHistory);
//   history.assign(rolled.begin(), rolled.end());
//   scale = q->as<float>(quantd::TensorKind::kNextScale)[0];
//
// If several processes reduce the amax first, leave the history out, reduce
// the amax of the copies, and call UpdateScale of "quantd/delayed_scaling.h".
//
// Threads: any number may call Quantize at once, while no set_ function runs.
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

// Values for amax_estimation_scale. Rotation makes an amax at most
// sqrt(dimension) times larger, 4 times for blocks of 16, so that 4 never
// clips. Gaussian values stay far below it.
inline constexpr float kActivationEstimation = 2.0f;
inline constexpr float kGradientEstimation = 1.0f;

// A new random seed for stochastic rounding.
uint64_t DrawSeed();

// An FP8 type by the name that TransformerEngine ("kFloat8E4M3"), JAX, PyTorch
// ("float8_e4m3fn") or this library ("e4m3") has for it; nullopt for another.
std::optional<DType> Fp8DTypeFromName(std::string_view name);

struct QuantizerConfig {
  // Options of every call. The rotation or the estimate of a copy that the
  // usage does not name takes effect when set_usage names that copy.
  QuantizeOptions options = {
      .format = Format::kNvfp4, .usage = Usage::kBoth, .rht = {}};

  // Rows and columns that share a scale; (0, 0): as the format says. Other
  // values pick the format of the same family that has them: with kNvfp4 or
  // kNvfp4Square (1, 16) or (16, 16); with FP8 block scaling (1, 128) or
  // (128, 128); with MX (1, 32).
  std::array<int, 2> block_dims = {0, 0};
  // The FP8 type of the codes, kE4M3 or kE5M2, which picks the format of the
  // same family; with NVFP4 that of the block scales, which is kE4M3.
  // Unspecified: as the format says. Fp8DTypeFromName reads the names of other
  // libraries.
  DType fp8_dtype = DType::kUnspecified;
  // The seed of random signs, which replace those of options.rht.
  std::optional<uint64_t> sign_seed = std::nullopt;
  // Draws a seed for every Quantize that rounds stochastically with the seed 0
  // in options.stochastic, before anything is sent, so that a retry gives the
  // same bytes. The tensor's options() have the seed. If false, 0 is a seed
  // like any other.
  bool draw_seed = true;
};

class Quantizer {
 public:
  explicit Quantizer(std::shared_ptr<Client> client,
                     const QuantizerConfig& config = {});

  // Sets which copies are made. nullopt leaves a flag as it is.
  void set_usage(std::optional<bool> rowwise, std::optional<bool> columnwise);
  // Sets the amax of each copy. Empty: computed.
  void set_amax(std::vector<float> rowwise, std::vector<float> columnwise);
  // Sets the scale to use and, optionally, the history to roll; with groups,
  // one scale and a history for each.
  void set_delayed_scaling(float scale, std::optional<HistoryOptions> history);
  void set_delayed_scaling(std::vector<float> scales,
                           std::optional<HistoryOptions> history);

  const QuantizerConfig& config() const { return config_; }
  // The configuration as the Client takes it, with a seed where one is drawn.
  // INVALID_ARGUMENT for block_dims or an fp8_dtype that the format's family
  // does not have, for a value that is set twice, and if there would be no
  // output.
  absl::StatusOr<QuantizeOptions> options() const;

  // Quantizes a tensor. `input` is its bytes, row-major, and stays the
  // caller's.
  absl::StatusOr<QuantizedTensor> Quantize(const TensorDesc& tensor,
                                           absl::Span<const std::byte> input,
                                           const CallOptions& call = {}) const;

  // Quantizes fp32 values, flattened at the last dimension.
  absl::StatusOr<QuantizedTensor> Quantize(absl::Span<const float> input,
                                           std::vector<int64_t> shape,
                                           const CallOptions& call = {}) const;

  // Quantizes groups of rows, each as if it were alone. `splits` are their
  // numbers of rows, which add up to M, or with options.partial_splits to less.
  // QuantizedTensor::group views one.
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
