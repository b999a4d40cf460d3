// A plan's Quantize and Dequantize as kernels take it: for every group the
// addresses of its input, codes, scales and amaxes. Made once, for any device;
// plain data but for the lists.
#ifndef QUANTD_KERNELS_TASK_H_
#define QUANTD_KERNELS_TASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/encode.h"
#include "kernels/geometry.h"
#include "kernels/plan.h"

namespace quantd {

// One copy of one group. Lines and positions are the group's own.
struct CopyTask : CopyAddress {
  std::byte* data = nullptr;   // nullptr: this copy is not wanted
  std::byte* scale = nullptr;  // codes, or fp32
  // Line l's amax is amax[l * amax_line]; nullptr: the format has none.
  float* amax = nullptr;
  int64_t amax_line = 0;
  // kTensor: the scale, not inverted.
  float* tensor_scale = nullptr;
  const float* signs = nullptr;  // s[i] * rotation^-1/2; nullptr: no rotation
  int rotation = 0;
};

struct GroupTask {
  const std::byte* x = nullptr;  // its first row, K elements a row
  int64_t row = 0;               // in the payload
  int64_t rows = 0;
  CopyTask rowwise;
  CopyTask columnwise;
  float* amax = nullptr;  // kAmax's slot
  // dbias: partial sums of each 128 rows, K each; and the output's slot.
  float* partial = nullptr;
  std::byte* dbias = nullptr;
};

// Where a job's bytes are, in one address space.
struct JobBases {
  std::byte* in = nullptr;       // plan.input_bytes()
  std::byte* out = nullptr;      // plan.output_bytes()
  std::byte* scratch = nullptr;  // plan.scratch_bytes()
  const float* signs = nullptr;  // of the plan's rotation
};

struct QuantizeTask {
  EncodeParams params;
  std::vector<GroupTask> groups;
};
QuantizeTask MakeQuantizeTask(const Plan& plan, const JobBases& bases);

struct DequantizeTask {
  Scaling scaling;
  DType element;
  DType output;
  int block;  // 0: the tensor
  float f6;
  int64_t cols;
  bool columnwise;
  // Only the one copy is there; `x` of a group is its first output row.
  std::vector<GroupTask> groups;
};
DequantizeTask MakeDequantizeTask(const Plan& plan, const JobBases& bases);

// Bytes of the output that no kernel writes: gaps between tensors and the
// padding of scales. To be zeroed first.
std::vector<ZeroRun> PaddingOf(const Plan& plan);

// Whether a plan is what the tuned NVFP4 kernels do: rounding to nearest,
// 1 x 16 blocks, linear scales, one amax, rotation of dimension 16.
bool IsPlainNvfp4(const Plan& plan);

}  // namespace quantd

#endif  // QUANTD_KERNELS_TASK_H_
