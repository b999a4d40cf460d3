// A quantized tensor as a value: codes, scales and amax of its rowwise and
// columnwise copies, and the options needed to decode them.
//
//   quantd::Quantizer quantizer(client);
//   auto q = quantizer.Quantize(desc, bytes);
//   q->Save("weight.safetensors");
//   auto back = quantd::QuantizedTensor::Load("weight.safetensors");
//   auto x = back->Dequantize(*client, quantd::DType::kF32);
//
// Memory: copies of a QuantizedTensor share the bytes, which live as long as
// the last copy. A loaded tensor is read into memory and keeps no file open.
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
  // Views of the rowwise or columnwise copy. The bytes of groups follow each
  // other; group() gives those of one group.
  struct Copy {
    absl::Span<const std::byte> data;   // codes
    std::vector<int64_t> data_shape;    // in stored elements
    absl::Span<const std::byte> scale;  // padded with zeros
    DType scale_dtype = DType::kUnspecified;
    Layout scale_layout = Layout::kLinear;
    std::vector<int64_t> scale_shape;
    // One value, one for each group, or one for each line. Empty for a format
    // without an amax.
    absl::Span<const float> amax;
    // The global scale or divisor of NVFP4 under a profile; `global_kind` says
    // which.
    absl::Span<const float> global;
    TensorKind global_kind = TensorKind::kUnspecified;
    bool rotated = false;  // the RHT was applied before quantizing
  };

  // The tensor that was quantized: shape, flatten axis and type.
  const TensorDesc& desc() const { return desc_; }
  const std::vector<int64_t>& shape() const { return desc_.shape; }
  DType dtype() const { return desc_.dtype; }
  Format format() const { return options_.format; }
  Usage usage() const { return options_.usage; }
  // The options that the tensor was quantized with, including a seed that the
  // Quantizer drew. The options of a loaded tensor never hold a given amax or
  // scale, even if one was given; the copies hold the values.
  const QuantizeOptions& options() const { return options_; }

  // The copies; nullopt for a copy that was not made.
  std::optional<Copy> rowwise() const;
  std::optional<Copy> columnwise() const;

  // All parts: those of the copies, and the other outputs that the options
  // asked for: kDbias, kAmax, kAmaxHistory, kNextScale.
  const std::vector<TensorSpec>& parts() const { return parts_; }
  // The part of that kind, or nullptr, and its bytes, which are empty if there
  // is no such part.
  const TensorSpec* part(TensorKind kind) const;
  absl::Span<const std::byte> bytes(TensorKind kind) const;
  // The elements of a part; empty if there is no such part or its elements do
  // not have the size of T.
  template <typename T>
  absl::Span<const T> as(TensorKind kind) const {
    const TensorSpec* spec = part(kind);
    if (spec == nullptr || SizeOf(spec->dtype) != sizeof(T)) return {};
    const auto raw = bytes(kind);
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }
  // The errors of a copy, as in Result::statistics. Nullopt for a loaded tensor
  // and for a group.
  const std::optional<ErrorStatistics>& statistics(Usage copy) const {
    return copy == Usage::kColumnwise ? columnwise_ : rowwise_;
  }

  // Returns the tensor with another shape. The dimensions from the flatten axis
  // on must be the same; those before it may differ if their product is the
  // same. Shares the bytes. INVALID_ARGUMENT for any other shape.
  absl::StatusOr<QuantizedTensor> Reshape(std::vector<int64_t> shape) const;

  // Converts the scales to that layout; shares all other bytes.
  // INVALID_ARGUMENT if the format or an option allows only one layout.
  absl::StatusOr<QuantizedTensor> ConvertScaleLayout(Layout layout) const;

  // Returns the tensor with another profile, whose library's arithmetic then
  // decodes the codes. Shares the bytes. INVALID_ARGUMENT (field "profile") if
  // that library does not have the format or stores other parts, such as a
  // global divisor in place of a global scale.
  absl::StatusOr<QuantizedTensor> ReadAs(Profile profile) const;

  // Makes a tensor of rows [first, first + count) with the amaxes and scales of
  // the whole, so that it decodes to the same values. The codes are shared, or
  // copied for a transposed columnwise copy, whose rows are not contiguous. All
  // other parts are left out. INVALID_ARGUMENT (field "rows") for a cut inside
  // a block: a columnwise copy is cut at multiples of its block and rotation,
  // and square blocks at multiples of the block. Either may also be cut at the
  // end of the tensor. For a tensor with groups, call it on a group.
  absl::StatusOr<QuantizedTensor> Rows(int64_t first, int64_t count) const;

  // The number of groups; 0 for a tensor without groups.
  size_t groups() const {
    return options_.splits ? options_.splits->size() : 0;
  }
  // Returns a group as a tensor of its own, rows x K, which shares the bytes.
  // OUT_OF_RANGE if there is no such group.
  absl::StatusOr<QuantizedTensor> group(size_t i) const;

  // The total size of all parts.
  size_t size_bytes() const;
  // The size of the tensor before it was quantized.
  size_t original_size_bytes() const;

  // Decodes the rowwise copy, or else the columnwise one, and undoes its
  // rotation. The result has one part, kDequantized, of M x K elements. `dtype`
  // unspecified: dtype().
  absl::StatusOr<Result> Dequantize(Client& client,
                                    DType dtype = DType::kUnspecified,
                                    const CallOptions& call = {}) const;
  // Decodes that copy, which must exist.
  absl::StatusOr<Result> DequantizeCopy(Client& client, Usage copy,
                                        DType dtype = DType::kUnspecified,
                                        const CallOptions& call = {}) const;

  // Writes a safetensors file with the parts as "<name>.rowwise_data" (U8,
  // F8_E4M3 or F8_E5M2), ".rowwise_scale" (F8_E4M3, F8_E8M0, F32 or a profile's
  // BF16 or F16), ".rowwise_amax" (F32), columnwise likewise, a profile's
  // global scale or divisor, ".amax" and ".dbias", and the options that
  // decoding needs as JSON in the metadata "quantd.tensor.<name>". The metadata
  // "quantd.numerics" names the profile. The state of delayed scaling is not
  // saved, because it belongs to the training run. The file is written
  // atomically.
  absl::Status Save(const std::string& path,
                    std::string_view name = "tensor") const;

  // Loads a tensor from a file that Save wrote. Names, types, shapes and sizes
  // are checked against the options. `name` empty: the only tensor of the file.
  // NOT_FOUND if the file has no tensor of that name.
  static absl::StatusOr<QuantizedTensor> Load(const std::string& path,
                                              std::string_view name = "");

  // Makes a tensor from a Result that Quantize returned for these arguments.
  // Parts in the caller's memory must stay valid as long as the tensor lives.
  static absl::StatusOr<QuantizedTensor> FromResult(
      const TensorDesc& tensor, const QuantizeOptions& options, Result result);

  // A part that another library made, with the bytes that a Result would hold.
  struct Part {
    TensorKind kind = TensorKind::kUnspecified;
    absl::Span<const std::byte> bytes;
    std::vector<int64_t> shape = {};  // empty: not compared
  };
  // Makes a tensor from parts that another library made. `parts` must hold
  // every part that Quantize would return for these arguments exactly once. The
  // function checks sizes, shapes, the alignment of fp32 parts, that no amax is
  // negative, and that every scale of an FP8 tensor is a number > 0. It does
  // not check codes. `owner` keeps the bytes alive; without an owner they are
  // copied.
  static absl::StatusOr<QuantizedTensor> FromParts(
      const TensorDesc& tensor, const QuantizeOptions& options,
      absl::Span<const Part> parts, std::shared_ptr<const void> owner = {});

 private:
  friend class QuantizedFile;
  // Makes a tensor without bytes. The arguments must be legal.
  static absl::StatusOr<QuantizedTensor> Make(const TensorDesc& tensor,
                                              const QuantizeOptions& options);
  std::optional<Copy> copy(bool columnwise) const;

  TensorDesc desc_;
  QuantizeOptions options_;
  std::vector<TensorSpec> parts_;
  std::vector<absl::Span<const std::byte>> spans_;  // of parts_, in order
  std::optional<ErrorStatistics> rowwise_;
  std::optional<ErrorStatistics> columnwise_;
  std::shared_ptr<const void> owner_;
};

}  // namespace quantd

#endif  // QUANTD_QUANTIZED_TENSOR_H_
