// Maps the codes and scales of a part of a tensor to their places in the whole
// tensor. Bands, pieces and rows are such parts.
#ifndef QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
#define QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/geometry.h"
#include "quantd/distributed.h"
#include "quantd/plan.h"

namespace quantd::client {

inline bool IsCode(TensorKind kind) {
  return kind == TensorKind::kRowwiseData ||
         kind == TensorKind::kColumnwiseData;
}
inline bool IsScale(TensorKind kind) {
  return kind == TensorKind::kRowwiseScale ||
         kind == TensorKind::kColumnwiseScale;
}
// Whether codes, scales or maxima are those of the columnwise copy.
inline bool IsColumnwise(TensorKind kind) {
  return kind == TensorKind::kColumnwiseData ||
         kind == TensorKind::kColumnwiseScale ||
         kind == TensorKind::kColumnwiseAmax ||
         kind == TensorKind::kColumnwiseRhtAmax;
}

// `count` runs of `bytes` bytes each. The first run starts at offset `at` in
// the whole tensor and at offset 0 in the part. Further runs follow every
// `whole_pitch` and `part_pitch` bytes.
struct Strip {
  size_t at = 0;
  size_t count = 1;
  size_t bytes = 0;
  size_t whole_pitch = 0;
  size_t part_pitch = 0;
};

// Copy a part's bytes into the whole tensor, and out of it.
void Scatter(const Strip& strip, absl::Span<const std::byte> part,
             absl::Span<std::byte> whole);
void Gather(const Strip& strip, absl::Span<const std::byte> whole,
            absl::Span<std::byte> part);

// The rowwise or columnwise copy of a tensor, without its size.
struct CopyKind {
  FormatSpec format;
  bool columnwise;
  int rotation;  // dimension of the RHT that was applied, or 0
  CopyForm form;

  CopyGeometry Geometry(int64_t rows, int64_t cols) const;
};
CopyKind CopyOf(const QuantizeOptions& options, DType input, bool columnwise);
// The copy that a Quantize makes or a Dequantize reads.
CopyKind CopyOf(const Plan& plan, bool columnwise);

// Relates the copy of a rows x cols matrix without groups to the copy of a part
// of the matrix. Codes may be cut at the units of CutUnitsOf, scales of every
// layout at multiples of 128.
class CopyWindow {
 public:
  CopyWindow(const CopyKind& copy, int64_t rows, int64_t cols,
             const Shard& part);

  Strip Codes() const;
  Strip Scales() const;

  const CopyGeometry& whole() const { return whole_; }
  const CopyGeometry& part() const { return part_; }

 private:
  const FormatSpec format_;
  const CopyGeometry whole_;
  const CopyGeometry part_;
  const int64_t line_;  // where the part starts in the whole
  const int64_t position_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
