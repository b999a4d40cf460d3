// Decodes a weight, quantized or not, to fp32 without a server. A value is code
// times scale, where the scale is the block scale times the global scale.
#ifndef QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_
#define QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// The i-th number of `bytes` in one of the types of scales and weights: F32,
// F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, and U8, which is read as E8M0. NaN for
// any other type.
float NumberAt(std::string_view dtype, absl::Span<const std::byte> bytes,
               size_t i);
// The values of all E4M3 codes.
const std::array<float, 256>& ValuesOfE4M3();
// Decodes out.size() numbers, faster than one at a time.
void Decode(std::string_view dtype, absl::Span<const std::byte> bytes,
            absl::Span<float> out);
// The bits of the nearest bf16. A NaN stays a NaN.
uint16_t ToBf16(float x);
// The count of numbers that differ, and that are not the nearest ones of the
// other's type, which may be BF16 or F16.
uint64_t Altered(absl::Span<const float> a, std::string_view type_a,
                 absl::Span<const float> b, std::string_view type_b);
// Reads all numbers of a small tensor.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor);
// Reads `count` numbers, beginning with number `first`.
absl::StatusOr<std::vector<float>> ReadNumbers(const Model& model,
                                               const ModelTensor& tensor,
                                               size_t first, size_t count);

class WeightValues {
 public:
  // Reads a quantized weight, or one expert of a stack.
  WeightValues(const Model& model, const StoredWeight& weight,
               int64_t expert = 0);
  // Reads a matrix of f32, f16 or bf16.
  WeightValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // Reads the halves of E2M1 bytes in the reverse of the dialect's order.
  void SwapHalves() { swapped_ = !swapped_; }
  // Rounds products to odd, so that rounding them again to bf16 gives the bf16
  // nearest to the exact product. NVFP4 still rounds to nearest, as libraries
  // do, because its combined scale is already rounded.
  void RoundToOdd() { to_odd_ = weight_->layout->global == Global::kNone; }
  // Decodes blocks of zero codes to zeros, even if their scale is NaN or
  // infinite.
  void MendZeros() { mends_ = true; }

  // Reads scales as linear if the dialect swizzles them, and as swizzled
  // otherwise.
  void SwapOrder() { swizzled_ = !swizzled_; }

  // Reads rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);
  // For each scale that is NaN or infinite while its block is zeros: its index
  // in the scale tensor. Must be called before any Read.
  absl::StatusOr<std::vector<size_t>> BadScalesOfZeros();
  // The stored bytes of the rows that Read() read last.
  absl::Span<const std::byte> codes() const { return codes_; }

  // The quantized weight being read.
  const StoredWeight& weight() const { return *weight_; }
  // Writes the codes of these rows, one for each byte.
  void ExpandCodes(std::vector<uint8_t>* out) const;
  // The scale of a block, global scale included, in one of the rows read last.
  float scale(int64_t row, int64_t block) const {
    const int64_t line = height_ == 0 ? 0 : row / height_ - first_line_;
    return scales_[static_cast<size_t>(line * across_ + block)];
  }
  // The global scale; 0 if the format has none.
  float global() const { return global_; }

 private:
  // Reads the scales of rows [row, row + count), or all if they are few,
  // swizzled, or of blocks that are not one row high.
  absl::Status ReadScales(int64_t row, int64_t count);
  // Sets scales that are NaN or infinite in blocks of zeros to 1. `first` is
  // the index of the first scale in its tensor.
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
  bool ready_ = false;  // all scales have been read
  std::vector<std::byte> codes_;
  std::vector<float> scales_;  // block scales times the global scale
  std::vector<size_t> mended_;
  int64_t first_line_ = 0;  // first line of blocks with scales in scales_
  int64_t across_ = 1;      // scales in a line
  int64_t height_ = 0;      // rows of a block; 0: all rows
  float global_ = 0;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHT_VALUES_H_
