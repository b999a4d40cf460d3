// The addresses of one group of rows and of its copies, as arguments of
// kernels. Plain data that kernels/device/task.h makes from a plan.
//
// A "line" is a row for the rowwise copy and a column for the columnwise one;
// a "position" runs along it.
#ifndef QUANTD_KERNELS_DEVICE_GROUP_TASK_H_
#define QUANTD_KERNELS_DEVICE_GROUP_TASK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/copy_address.h"
#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"

namespace quantd {

// A tensor as one matrix, row-major without padding.
struct Matrix {
  const std::byte* data;
  DType dtype;  // f32, f16 or bf16
  int64_t rows;
  int64_t cols;
};

// One copy of one group. Lines and positions count within the group.
struct CopyTask : CopyAddress {
  std::byte* data = nullptr;   // nullptr: this copy is not made
  std::byte* scale = nullptr;  // codes, or fp32
  // The amax of line l is amax[l * amax_line]; nullptr: the format has none.
  // When decoding under a profile: its global scale or divisor.
  float* amax = nullptr;
  int64_t amax_line = 0;
  // For Scaling::kTensor: the scale, not inverted.
  float* tensor_scale = nullptr;
  const float* signs = nullptr;  // s[i] * rotation^-1/2; nullptr: no rotation
  int rotation = 0;
};

struct GroupTask {
  const std::byte* x = nullptr;  // its first row; K elements per row
  int64_t row = 0;               // its position in the payload
  int64_t rows = 0;
  CopyTask rowwise;
  CopyTask columnwise;
  float* amax = nullptr;  // output of kind kAmax
  // For dbias: K partial sums for each 128 rows, and the output.
  float* partial = nullptr;
  std::byte* dbias = nullptr;
};

// Parameters of a Dequantize, shared by all groups.
struct DequantizeParams {
  Scaling scaling;
  DType element;
  DType scale;  // type of a stored scale
  DType output;
  int block;    // 0: one scale per tensor
  float range;  // as in EncodeParams
  int64_t cols;
  bool columnwise;
  Numerics numerics;
};
}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_GROUP_TASK_H_
