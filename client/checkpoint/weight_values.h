// Decodes the numbers of a weight, quantized or not, to fp32, without a server:
// code times scale, where the scale is the block's times the global one.
#ifndef QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_
#define QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// The i-th number of a floating type in which scales and weights are stored:
// F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, and U8 as E8M0. NaN for another
// type.
float NumberAt(std::string_view dtype, absl::Span<const std::byte> bytes,
               size_t i);
// Decodes out.size() numbers, which is faster than one at a time.
void Decode(std::string_view dtype, absl::Span<const std::byte> bytes,
            absl::Span<float> out);
// The nearest bf16; a NaN stays a NaN.
uint16_t ToBf16(float x);
// All numbers of a small tensor.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor);
// `count` numbers, beginning with number `first`.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor,
                                               size_t first, size_t count);

class WeightValues {
 public:
  // A quantized weight, or one expert of a stack.
  WeightValues(const Model& model, const StoredWeight& weight,
               int64_t expert = 0);
  // A matrix of f32, f16 or bf16.
  WeightValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // Swaps the halves of E2M1 bytes against the dialect's order.
  void SwapHalves() { swapped_ = !swapped_; }
  // Rounds products to odd, so that rounding them again to bf16 gives the bf16
  // nearest to the exact product. Products of NVFP4, whose combined scale is
  // itself rounded, are rounded to the nearest, as libraries do.
  void RoundToOdd() { to_odd_ = weight_->layout->global == Global::kNone; }
  // Makes blocks with zero codes zeros, whatever their scale is.
  void MendZeros() { mends_ = true; }

  // Swaps the order of scales, swizzled or linear, against the dialect's.
  void SwapOrder() { swizzled_ = !swizzled_; }

  // Reads rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);
  // Indices, in their tensor, of scales that are NaN or infinite in blocks of
  // zeros. Must be called before any Read.
  absl::StatusOr<std::vector<size_t>> BadScalesOfZeros();
  // The stored bytes of the rows read last.
  absl::Span<const std::byte> codes() const { return codes_; }

  // The quantized weight being read.
  const StoredWeight& weight() const { return *weight_; }
  // The codes, one a byte.
  void ExpandCodes(std::vector<uint8_t>* out) const;
  // The factor of a block of codes in a row that was read last.
  float scale(int64_t row, int64_t block) const {
    const int64_t line = height_ == 0 ? 0 : row / height_ - first_line_;
    return scales_[static_cast<size_t>(line * across_ + block)];
  }
  // The global scale within that factor; 0: it has none.
  float global() const { return global_; }

 private:
  // Reads the scales of rows [row, row + count), or all if they are few.
  absl::Status ReadScales(int64_t row, int64_t count);
  // `first` is the index of the first scale in its tensor.
  absl::Status Mend(size_t first);
  size_t LineBytes() const;
  void Scale(int64_t row, int64_t count, std::vector<float>* out) const;

  const Model& model_;
  const StoredWeight* weight_ = nullptr;
  const ModelTensor* tensor_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t expert_ = 0;
  bool swapped_ = false;
  bool to_odd_ = false;
  bool mends_ = false;
  bool swizzled_ = false;
  bool ready_ = false;  // all scales are read
  std::vector<std::byte> codes_;
  std::vector<float> scales_;  // of blocks, times the global one
  std::vector<size_t> mended_;
  int64_t first_line_ = 0;  // first line of blocks whose scales are read
  int64_t across_ = 1;      // scales of a line
  int64_t height_ = 0;      // rows of a block; 0: all
  float global_ = 0;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_
