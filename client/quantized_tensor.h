// A quantized tensor as a value: codes, scales and amax of its rowwise and
// columnwise copies, and all that is needed to decode them.
//
//   quantd::Quantizer quantizer(client);
//   auto q = quantizer.Quantize(desc, bytes);
//   q->Save("weight.safetensors");
//   auto back = quantd::QuantizedTensor::Load("weight.safetensors");
//   auto x = back->Dequantize(*client, quantd::DType::kF32);
//
// Memory: copies of a QuantizedTensor share the bytes, which live until the
// last of them is gone. A loaded tensor views its mapped file, which nobody
// may truncate meanwhile.
// Threads: immutable; may be read by many threads.
#ifndef QUANTD_CLIENT_QUANTIZED_TENSOR_H_
#define QUANTD_CLIENT_QUANTIZED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "kernels/format.h"
#include "kernels/plan.h"

namespace quantd {

class QuantizedTensor {
 public:
  // One of the two copies. Views into the tensor.
  struct Copy {
    absl::Span<const std::byte> data;   // packed codes
    std::vector<int64_t> data_shape;    // in bytes
    absl::Span<const std::byte> scale;  // E4M3, padded with zeros
    std::vector<int64_t> scale_shape;
    float amax = 0;
    bool rotated = false;  // the RHT was applied before
  };

  // What was quantized: shape, flatten axis and nominal type.
  const TensorDesc& desc() const { return desc_; }
  const std::vector<int64_t>& shape() const { return desc_.shape; }
  DType dtype() const { return desc_.dtype; }
  Format format() const { return options_.format; }
  Usage usage() const { return options_.usage; }
  // How it was quantized. A loaded tensor does not say whether an amax was
  // given or computed; the value is in the copies either way.
  const QuantizeOptions& options() const { return options_; }

  // nullopt when that copy is not there.
  std::optional<Copy> rowwise() const;
  std::optional<Copy> columnwise() const;

  // Bytes of all parts together.
  size_t size_bytes() const;
  // The same of the tensor it was made from.
  size_t original_size_bytes() const;

  // Decodes the rowwise copy, or the columnwise one where it is the only one,
  // undoing its rotation. Part of the result: kDequantized, M x K. `dtype`
  // unspecified: the nominal one.
  absl::StatusOr<Result> Dequantize(Client& client,
                                    DType dtype = DType::kUnspecified,
                                    const CallOptions& call = {}) const;
  // The same for the copy named, which must be there.
  absl::StatusOr<Result> DequantizeCopy(Client& client, Usage copy,
                                        DType dtype = DType::kUnspecified,
                                        const CallOptions& call = {}) const;

  // A safetensors file with the parts as "<name>.rowwise_data" (U8),
  // ".rowwise_scale" (F8_E4M3), ".rowwise_amax" (F32), columnwise likewise,
  // and what decoding needs as JSON in the metadata "quantd.tensor.<name>".
  // The file appears whole or not at all.
  absl::Status Save(const std::string& path,
                    std::string_view name = "tensor") const;

  // Everything in the file is checked: names, types, shapes and sizes against
  // what the options demand. `name` empty: the only tensor of the file.
  // NOT_FOUND for a name that is not there.
  static absl::StatusOr<QuantizedTensor> Load(const std::string& path,
                                              std::string_view name = "");

  // The tensor of a Result that `Quantize` gave for these arguments. Parts
  // that went into the caller's memory must stay there as long as it lives.
  static absl::StatusOr<QuantizedTensor> FromResult(
      const TensorDesc& tensor, const QuantizeOptions& options, Result result);

 private:
  friend class QuantizedFile;
  absl::Span<const std::byte> bytes(TensorKind kind) const;
  std::optional<Copy> copy(bool columnwise) const;

  TensorDesc desc_;
  QuantizeOptions options_;
  std::vector<TensorSpec> parts_;
  std::vector<absl::Span<const std::byte>> spans_;  // parallel to the parts
  std::shared_ptr<const void> owner_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_QUANTIZED_TENSOR_H_
