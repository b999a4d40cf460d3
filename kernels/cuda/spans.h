// Launchers of the kernels that take every format and option, a list of groups
// at a time. Where the tuned kernels (kernels/cuda/launch.h) could do the same
// both give the same bytes. What is said there about pointers and streams
// holds here, too; but groups may be empty, as long as not all are.
#ifndef QUANTD_KERNELS_CUDA_SPANS_H_
#define QUANTD_KERNELS_CUDA_SPANS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/arith/encode.h"
#include "kernels/cuda/launch.h"
#include "kernels/device/group_task.h"
#include "kernels/plan/error_statistics.h"
#include "kernels/plan/format.h"

namespace quantd::cuda {

// Kernels walk over tiles of so many rows and columns, which start anew in
// every group: no square, span or chunk of rows crosses a tile's edge.
inline constexpr int kTileSide = 128;
// Rows of a strip, the largest block that has no more of them; likewise.
inline constexpr int kStripRows = 32;

// The groups of a job, on the device.
struct GroupList {
  const GroupTask* groups;
  const int64_t* chunks;  // [g]: rows of tiles before group g; [count]: all
  int64_t count;
  int64_t chunk_count;    // chunks[count]
  const int64_t* strips;  // the same for strips of rows
  int64_t strip_count;
  int64_t rows;  // of all groups
  int64_t cols;  // K
};

// Maxima of the input: plain and, where there are signs, rotated; of each group
// and, where a pointer says so, of each line, by atomicMax onto zeros.
struct SpanAmaxArgs {
  GroupList list;
  DType dtype;
  const float* row_signs;
  const float* col_signs;
  int rotation;    // dimension, where there are signs
  Found* found;    // one for each group
  uint32_t* seen;  // Seen bits of the whole input
  // fp32 bits; of the rows of the payload, and of the K columns of each group.
  uint32_t* rows;
  uint32_t* rotated_rows;
  uint32_t* columns;
  uint32_t* rotated_columns;
  bool propagate;  // a line that holds NaN has the maximum NaN
};
cudaError_t LaunchSpanAmax(const SpanAmaxArgs& args, const Queue& queue);

// Scales of FP8 tensors from their amaxes, which have been written.
struct TensorScaleArgs {
  GroupList list;
  EncodeParams params;
  const float* scales;  // one for each group; nullptr: from the amax
};
cudaError_t LaunchTensorScales(const TensorScaleArgs& args, const Queue& queue);

// Codes and block scales of every copy that is wanted.
struct EncodeArgs {
  GroupList list;
  EncodeParams params;
  int rotation;  // the larger of the copies' dimensions, 0 without
  uint32_t* seen;
  // Statistics of the rowwise and the columnwise copy; nullptr: not wanted.
  ErrorSums* sums;
  // For the choice of a kernel: group 0, as what all groups are like; whether
  // the chunk sums of dbias are wanted, too; and s[i] / 4 of a rotation of
  // dimension 16.
  GroupTask first;
  bool dbias;
  float signs[kBlock];
};

// One translation unit for each dtype (encode/generic).
template <DType D>
cudaError_t LaunchEncodeFrom(const EncodeArgs& args, const Queue& queue);

struct DecodeArgs {
  GroupList list;  // `x` of a group is its first output row
  // The first group: where there is no other, it travels with the kernel, which
  // then waits for no look-up.
  GroupTask only;
  DequantizeParams params;
  int rotation;
};
// The fast ones, at the speed of memory: copies that lie as the output does and
// are not rotated; rowwise NVFP4 that is rotated by 16; copies that are stored
// as the transpose, NVFP4 also rotated by 16.
cudaError_t LaunchDecodeRows(const DecodeArgs& args, const Queue& queue);
cudaError_t LaunchDecodeRotatedRows(const DecodeArgs& args, const Queue& queue);
cudaError_t LaunchDecodeColumns(const DecodeArgs& args, const Queue& queue);
// Any format and any rotation.
cudaError_t LaunchDecodeSpans(const DecodeArgs& args, const Queue& queue);

// Sums of the columns of each group.
struct DbiasArgs {
  GroupList list;
  DType input;
  DType output;
  bool summed;  // the sums of chunks are there
};
cudaError_t LaunchDbias(const DbiasArgs& args, const Queue& queue);

// Zeros in runs, which a list on the device describes.
struct ZeroRunsArgs {
  static constexpr int64_t kPiece = 4096;  // bytes that a CTA writes at a time
  std::byte* to;
  const ZeroRun* runs;
  const int64_t* pieces;  // [r]: pieces of the runs before r; [count]: all
  int64_t count;
  int64_t piece_count;
};
cudaError_t LaunchZeroRuns(const ZeroRunsArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_SPANS_H_
