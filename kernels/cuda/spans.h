// Launchers of the kernels that take every format and option, a list of groups
// at a time. Where the tuned kernels (kernels/cuda/launch.h) could do the same
// both give the same bytes. What is said there about pointers and streams
// holds here, too; but groups may be empty, as long as not all are.
#ifndef QUANTD_KERNELS_CUDA_SPANS_H_
#define QUANTD_KERNELS_CUDA_SPANS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/encode.h"
#include "kernels/error_statistics.h"
#include "kernels/format.h"
#include "kernels/group_task.h"

namespace quantd::cuda {

// Kernels walk over tiles of so many rows and columns, which start anew in
// every group: no square, span or chunk of rows crosses a tile's edge.
inline constexpr int kTileSide = 128;

// The groups of a job, on the device.
struct GroupList {
  const GroupTask* groups;
  const int64_t* chunks;  // [g]: rows of tiles before group g; [count]: all
  int64_t count;
  int64_t chunk_count;  // chunks[count]
  int64_t cols;         // K
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
  bool rowwise;  // which copies are wanted, the same in every group
  bool columnwise;
  bool dbias;  // group.partial is wanted, which not all kernels fill
  uint32_t* seen;
  // Statistics of the rowwise and the columnwise copy; nullptr: not wanted.
  ErrorSums* sums;
};
cudaError_t LaunchEncode(const EncodeArgs& args, const Queue& queue);
// Whether it fills group.partial, where that is wanted.
bool EncodeSumsChunks(const EncodeArgs& args);

// The tuned kernels for FP8 and MXFP8 (encode_fp8.cuh), and whether these
// arguments are theirs.
bool EncodesFp8(const EncodeArgs& args);
cudaError_t LaunchEncodeFp8(const EncodeArgs& args, const Queue& queue);

// One translation unit for each dtype (encode_*.cu).
template <DType D>
cudaError_t LaunchEncodeFrom(const EncodeArgs& args, const Queue& queue);

struct DecodeArgs {
  GroupList list;  // `x` of a group is its first output row
  DequantizeParams params;
  int rotation;
};
cudaError_t LaunchDecode(const DecodeArgs& args, const Queue& queue);

// Sums of the columns of each group.
struct DbiasArgs {
  GroupList list;
  DType input;
  DType output;
  bool summed;  // group.partial is full already
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
