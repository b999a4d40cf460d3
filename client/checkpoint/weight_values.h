// The numbers of a weight, quantized or not, in fp32 and without a server: code
// times scale, where the scale is that of the block with the global one in it.
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

// Numbers of floating types that scales and weights are stored as: F32, F16,
// BF16, F8_E4M3, F8_E5M2, F8_E8M0, and U8 as E8M0. NaN for another type.
float NumberAt(std::string_view dtype, absl::Span<const std::byte> bytes,
               size_t i);
// As many of them as `out` has room for, without a look at their type for each.
void Decode(std::string_view dtype, absl::Span<const std::byte> bytes,
            absl::Span<float> out);
// The nearest bf16; a NaN stays one.
uint16_t ToBf16(float x);
// All numbers of a small tensor.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor);
// `count` of them, from the one at `first` on.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor,
                                               size_t first, size_t count);

class WeightValues {
 public:
  // A quantized weight; of a stack, that expert.
  WeightValues(const Model& model, const StoredWeight& weight,
               int64_t expert = 0);
  // A matrix of f32, f16 or bf16.
  WeightValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // The even element of E2M1 is in the other half of its byte than the dialect
  // says.
  void SwapHalves() { swapped_ = !swapped_; }
  // Products that fp32 does not have end with a bit of 1, so that the nearest
  // bf16 of a number is that of the product. Of NVFP4, whose factor is rounded
  // itself, they stay the nearest of fp32, as libraries have them.
  void RoundToOdd() { to_odd_ = weight_->layout->global == Global::kNone; }
  // Blocks whose codes are all zero are zeros, whatever their scale is.
  void MendZeros() { mends_ = true; }

  // Scales are swizzled where the dialect has them linear, or the other way
  // round.
  void SwapOrder() { swizzled_ = !swizzled_; }

  // Rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);
  // Scales that are NaN or infinite over nothing but zeros, by their places in
  // the tensor; nothing may have been read before.
  absl::StatusOr<std::vector<size_t>> BadScalesOfZeros();
  // What the file has for the rows that were read last.
  absl::Span<const std::byte> codes() const { return codes_; }

  // Of a quantized weight that was read.
  const StoredWeight& weight() const { return *weight_; }
  // The same codes, one a byte.
  void ExpandCodes(std::vector<uint8_t>* out) const;
  // What the codes of a row that was read last are multiplied by, those of that
  // block of it.
  float scale(int64_t row, int64_t block) const {
    const int64_t line = height_ == 0 ? 0 : row / height_ - first_line_;
    return scales_[static_cast<size_t>(line * across_ + block)];
  }
  // The global scale's part of that; 0: it has none.
  float global() const { return global_; }

 private:
  // Those of rows [row, row + count), or all where they are few.
  absl::Status ReadScales(int64_t row, int64_t count);
  // `first`: the place of the first scale in its tensor.
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
  bool ready_ = false;  // all scales are there
  std::vector<std::byte> codes_;
  std::vector<float> scales_;  // of blocks, times the global one
  std::vector<size_t> mended_;
  int64_t first_line_ = 0;  // of blocks, whose scales are there
  int64_t across_ = 1;      // scales of a line
  int64_t height_ = 0;      // rows of a block; 0: all
  float global_ = 0;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_
