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
// last of them is gone. A loaded tensor is read into memory and keeps no file.
// Threads: immutable; may be read by many threads.
#ifndef QUANTD_QUANTIZED_TENSOR_H_
#define QUANTD_QUANTIZED_TENSOR_H_

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
#include "quantd/client.h"
#include "quantd/error_statistics.h"
#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd {

class QuantizedTensor {
 public:
  // Views of one of the two copies. Groups follow each other (see group).
  struct Copy {
    absl::Span<const std::byte> data;   // codes
    std::vector<int64_t> data_shape;    // in stored elements
    absl::Span<const std::byte> scale;  // padded with zeros
    DType scale_dtype = DType::kUnspecified;
    Layout scale_layout = Layout::kLinear;
    std::vector<int64_t> scale_shape;
    // One value, one for each group or one for each line; empty for a format
    // without an amax.
    absl::Span<const float> amax;
    // The global scale or divisor of NVFP4 under a profile; `global_kind` says
    // which.
    absl::Span<const float> global;
    TensorKind global_kind = TensorKind::kUnspecified;
    bool rotated = false;  // the RHT was applied before
  };

  // The original tensor: shape, flatten axis and nominal type.
  const TensorDesc& desc() const { return desc_; }
  const std::vector<int64_t>& shape() const { return desc_.shape; }
  DType dtype() const { return desc_.dtype; }
  Format format() const { return options_.format; }
  Usage usage() const { return options_.usage; }
  // The options it was quantized with, including the seed that was drawn. For a
  // loaded tensor they do not tell whether an amax or a scale was given or
  // computed; the copies have the values either way.
  const QuantizeOptions& options() const { return options_; }

  // The copies; nullopt for one that was not made.
  std::optional<Copy> rowwise() const;
  std::optional<Copy> columnwise() const;

  // All parts: those of the copies, and the other outputs that were asked for:
  // kDbias, kAmax, kAmaxHistory, kNextScale.
  const std::vector<TensorSpec>& parts() const { return parts_; }
  // A part and its bytes; nullptr and empty when there is no such part.
  const TensorSpec* part(TensorKind kind) const;
  absl::Span<const std::byte> bytes(TensorKind kind) const;
  // The elements of a part; empty also when the sizes do not match.
  template <typename T>
  absl::Span<const T> as(TensorKind kind) const {
    const TensorSpec* spec = part(kind);
    if (spec == nullptr || SizeOf(spec->dtype) != sizeof(T)) return {};
    const auto raw = bytes(kind);
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }
  // The errors of a copy, as Result::statistics has them. A loaded tensor and a
  // group have none.
  const std::optional<ErrorStatistics>& statistics(Usage copy) const {
    return copy == Usage::kColumnwise ? columnwise_ : rowwise_;
  }

  // Returns the tensor with another shape: the dimensions from the flatten axis
  // on must stay, those before it may change as long as their product does not.
  // Shares the bytes. INVALID_ARGUMENT for any other shape.
  absl::StatusOr<QuantizedTensor> Reshape(std::vector<int64_t> shape) const;

  // Converts the scales to that layout; shares all other bytes.
  // INVALID_ARGUMENT for a format or an option with only one layout.
  absl::StatusOr<QuantizedTensor> ConvertScaleLayout(Layout layout) const;

  // Lets the codes be decoded as another library decodes its own. Shares the
  // bytes. INVALID_ARGUMENT (field "profile") if that library has no such
  // format or stores other parts, such as a divisor in place of a scale.
  absl::StatusOr<QuantizedTensor> ReadAs(Profile profile) const;

  // Makes a tensor of rows [first, first + count), with the amaxes and scales
  // of the whole: it decodes to what the whole decodes to there. Shares the
  // codes where rows lie together and copies them in transposed columnwise
  // copies. Parts beside the copies are not in it. INVALID_ARGUMENT (field
  // "rows") for a cut inside a block: a columnwise copy is cut at multiples of
  // its block and rotation, square blocks at multiples of the block; the end of
  // the tensor is a cut, too. For a tensor with groups, slice a group.
  absl::StatusOr<QuantizedTensor> Rows(int64_t first, int64_t count) const;

  // Groups of rows; 0 for a tensor that is not grouped.
  size_t groups() const {
    return options_.splits ? options_.splits->size() : 0;
  }
  // A group as a tensor of its own, rows x K, which shares the bytes.
  // OUT_OF_RANGE when there is no such group.
  absl::StatusOr<QuantizedTensor> group(size_t i) const;

  // The bytes of all parts together.
  size_t size_bytes() const;
  // The bytes of the tensor that it was made from.
  size_t original_size_bytes() const;

  // Decodes the rowwise copy, or the columnwise one if it is the only one, and
  // undoes its rotation. Part of the result: kDequantized, M x K. `dtype`
  // unspecified: the nominal one.
  absl::StatusOr<Result> Dequantize(Client& client,
                                    DType dtype = DType::kUnspecified,
                                    const CallOptions& call = {}) const;
  // Decodes the copy named, which must be there.
  absl::StatusOr<Result> DequantizeCopy(Client& client, Usage copy,
                                        DType dtype = DType::kUnspecified,
                                        const CallOptions& call = {}) const;

  // A safetensors file with the parts as "<name>.rowwise_data" (U8, F8_E4M3 or
  // F8_E5M2), ".rowwise_scale" (F8_E4M3, F8_E8M0, F32 or a profile's BF16 or
  // F16), ".rowwise_amax" (F32), columnwise likewise, a profile's global scale
  // or divisor, ".amax" and ".dbias", and what decoding needs as JSON in the
  // metadata "quantd.tensor.<name>". The metadata "quantd.numerics" names the
  // profile whose bytes they are. The state of delayed scaling is the
  // training's and not in it. The file appears whole or not at all.
  absl::Status Save(const std::string& path,
                    std::string_view name = "tensor") const;

  // Loads a tensor from such a file. Everything is checked: names, types,
  // shapes and sizes must match the options. `name` empty: the only tensor of
  // the file. NOT_FOUND for a name that is not there.
  static absl::StatusOr<QuantizedTensor> Load(const std::string& path,
                                              std::string_view name = "");

  // Makes a tensor from a Result that Quantize returned for these arguments.
  // Parts in the caller's memory must stay there as long as it lives.
  static absl::StatusOr<QuantizedTensor> FromResult(
      const TensorDesc& tensor, const QuantizeOptions& options, Result result);

  // A part that was made elsewhere, with the bytes that a Result would have.
  struct Part {
    TensorKind kind = TensorKind::kUnspecified;
    absl::Span<const std::byte> bytes;
    std::vector<int64_t> shape = {};  // empty: not compared
  };
  // Makes a tensor from parts that were made elsewhere, such as the buffers of
  // another library: every part that Quantize would give for these arguments,
  // once. Checked are sizes, shapes, the alignment of fp32 parts, that no amax
  // is negative, and that every scale of an FP8 tensor is a number > 0; codes
  // are taken as they are. `owner` keeps the bytes; without one they are
  // copied.
  static absl::StatusOr<QuantizedTensor> FromParts(
      const TensorDesc& tensor, const QuantizeOptions& options,
      absl::Span<const Part> parts, std::shared_ptr<const void> owner = {});

 private:
  friend class QuantizedFile;
  // Makes the tensor of legal arguments, without its bytes.
  static absl::StatusOr<QuantizedTensor> Make(const TensorDesc& tensor,
                                              const QuantizeOptions& options);
  std::optional<Copy> copy(bool columnwise) const;

  TensorDesc desc_;
  QuantizeOptions options_;
  std::vector<TensorSpec> parts_;
  std::vector<absl::Span<const std::byte>> spans_;  // parallel to the parts
  std::optional<ErrorStatistics> rowwise_;
  std::optional<ErrorStatistics> columnwise_;
  std::shared_ptr<const void> owner_;
};

}  // namespace quantd

#endif  // QUANTD_QUANTIZED_TENSOR_H_
