// Launchers: the only door between plain C++ and device code. Each one queues
// its kernels on a stream and returns what the launch returned; nothing waits.
//
// Every pointer is device memory of the current device, aligned to 256 bytes
// (amax and signs: 4) and owned by the caller until the stream has passed.
// Matrices are row-major without padding. No dimension may be 0.
#ifndef QUANTD_KERNELS_CUDA_LAUNCH_H_
#define QUANTD_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/queue.h"
#include "kernels/plan/format.h"

namespace quantd::cuda {

struct Matrix {
  const std::byte* data;
  DType dtype;  // f32, f16 or bf16
  int64_t rows;
  int64_t cols;
};

// What kernels find out beside their output. Zeroed by the caller first.
// Maxima are fp32 bits with NaN dropped.
struct Found {
  uint32_t plain;
  uint32_t row_rht;
  uint32_t col_rht;
  uint32_t seen;  // Seen bits
};
enum Seen : uint32_t {
  kSeenNan = 1,  // in the input
  kSeenInf = 2,
  kSeenRowRhtNan = 4,  // in the rotated values
  kSeenColRhtNan = 8,
};

// Maxima of x; `*_signs` are 16 floats s[i] / 4, or nullptr: not wanted. A
// rotation of the rows needs cols % 16 == 0.
struct AmaxArgs {
  Matrix x;
  const float* row_signs;
  const float* col_signs;
  Found* found;
  float signs[16];  // the same, where either is wanted
};
cudaError_t LaunchAmax(const AmaxArgs& args, const Queue& queue);
// A part of it: bf16, cols % 16 == 0, and a rotation is wanted.
cudaError_t LaunchAmaxTiles(const AmaxArgs& args, const Queue& queue);

// Turns maxima into amaxes where they belong, for every group.
enum class FoundAmax { kGiven, kPlain, kRowRht, kColRht };
struct WriteAmaxArgs {
  static constexpr int kMax = 4;
  struct Entry {
    float* to;  // one for each group
    FoundAmax source;
    float number;  // kGiven: the amax; else what a maximum is multiplied with
  };
  Entry entries[kMax];
  int count;
  bool propagate;  // NaN where the source held one
  int64_t groups;
  const Found* found;  // one for each group
  // Whether a kernel is what was queued last: this one then starts while that
  // still runs.
  bool follows;
};
cudaError_t LaunchWriteAmax(const WriteAmaxArgs& args, const Queue& queue);

// One NVFP4 copy to write. Padding between used and stride is not written but
// for the columnwise scales, where it may be, with zeros.
struct Nvfp4Copy {
  std::byte* data;  // nullptr: this copy is not wanted
  std::byte* scale;
  const float* amax;
  const float* signs;    // as above, nullptr: no rotation
  int64_t data_stride;   // bytes from line to line
  int64_t scale_stride;  // likewise, a multiple of 4
};
struct QuantizeArgs {
  Matrix x;
  Nvfp4Copy row;  // needs cols % 16 == 0
  Nvfp4Copy col;
  bool propagate;
  Found* found;  // nan and inf are set
};

struct ApplyRhtArgs {
  Matrix x;
  std::byte* out;
  DType dtype;  // of out
  const float* signs;
  int dimension;  // divides cols
  bool inverse;
  Found* found;  // nan and inf are set
};
cudaError_t LaunchApplyRht(const ApplyRhtArgs& args, const Queue& queue);

// cudaSuccess when this program holds code for the current device.
cudaError_t FindKernels();

// One translation unit for each dtype (encode/nvfp4/quantize_*.cu).
template <DType D>
cudaError_t LaunchQuantizeFrom(const QuantizeArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_LAUNCH_H_
