// A quantizer as users of TransformerEngine know it: a configuration that is
// set once and applied to many tensors.
//
//   quantd::Quantizer quantizer(client, {.with_rht = true});
//   quantizer.set_usage(true, false);
//   absl::StatusOr<quantd::QuantizedTensor> q =
//       quantizer.Quantize({quantd::DType::kBF16, {4096, 4096}}, bytes);
//
// Threads: Quantize may be called from many threads; not while a set_ function
// runs.
#ifndef QUANTD_CLIENT_QUANTIZER_H_
#define QUANTD_CLIENT_QUANTIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/quantized_tensor.h"
#include "kernels/format.h"
#include "kernels/sign_mask.h"

namespace quantd {

struct QuantizerConfig {
  Format format = Format::kNvfp4;
  // Elements that share a scale: rows, columns. (1, 16) is the only one so
  // far; another is refused by Quantize.
  std::array<int, 2> block_dims = {1, 16};
  bool rowwise = true;
  bool columnwise = true;
  // Rotates the columnwise operand before it is quantized, as
  // TransformerEngine does; for gradients. The rowwise copy stays unrotated.
  bool with_rht = false;
  // Rotates the rowwise operand too.
  bool with_rowwise_rht = false;
  SignMask sign_mask = kDefaultSignMask;
  NonFinite non_finite = NonFinite::kIgnore;
  // Replace the computed amax, for example after a reduction over shards.
  std::optional<float> rowwise_amax = std::nullopt;
  std::optional<float> columnwise_amax = std::nullopt;
};

class Quantizer {
 public:
  explicit Quantizer(std::shared_ptr<Client> client,
                     const QuantizerConfig& config = {});

  // nullopt leaves that flag as it is.
  void set_usage(std::optional<bool> rowwise, std::optional<bool> columnwise);
  void set_amax(std::optional<float> rowwise, std::optional<float> columnwise);

  const QuantizerConfig& config() const { return config_; }
  // The configuration as the Client takes it. INVALID_ARGUMENT for block_dims
  // that do not exist and when neither copy is wanted.
  absl::StatusOr<QuantizeOptions> options() const;

  // `input` is tensor's bytes, row-major, and stays the caller's.
  absl::StatusOr<QuantizedTensor> Quantize(const TensorDesc& tensor,
                                           absl::Span<const std::byte> input,
                                           const CallOptions& call = {}) const;

  // The same for fp32, flattened at its last dimension.
  absl::StatusOr<QuantizedTensor> Quantize(absl::Span<const float> input,
                                           std::vector<int64_t> shape,
                                           const CallOptions& call = {}) const;

 private:
  std::shared_ptr<Client> client_;
  QuantizerConfig config_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_QUANTIZER_H_
