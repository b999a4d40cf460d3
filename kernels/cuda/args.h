// Arguments of kernels: plain data, passed by value through the launchers
// (kernels/cuda/launch.h).
//
// Every pointer refers to memory that the current device can access, aligned to
// 256 bytes (amaxes and signs: 4), which must stay valid until the kernel has
// ended. Matrices are row-major without padding. No dimension may be 0. Groups
// may be empty, but not all of them.
#ifndef QUANTD_KERNELS_CUDA_ARGS_H_
#define QUANTD_KERNELS_CUDA_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/copy_address.h"
#include "kernels/arith/encode.h"
#include "kernels/cuda/kernels.h"
#include "kernels/device/group_task.h"
#include "kernels/plan/error_sums.h"
#include "quantd/format.h"

namespace quantd::cuda {

// Rows and columns of a tile. Tiles start anew in every group: no square, span
// or chunk of rows crosses a tile's edge.
inline constexpr int kTileSide = kChunkRows;
// Rows of a strip, and of a columnwise MX block: no block crosses a strip's
// edge.
inline constexpr int kStripRows = 32;

// Results of kernels beside their output. The caller must zero them first. The
// maxima are fp32 bits and ignore NaN.
struct Found {
  uint32_t plain;    // max |x|
  uint32_t row_rht;  // of the rotated rows
  uint32_t col_rht;  // of the rotated columns
  uint32_t seen;     // Seen bits
};
enum Seen : uint32_t {
  kSeenNan = 1,  // NaN in the input
  kSeenInf = 2,
  kSeenRowRhtNan = 4,  // NaN in the rotated rows
  kSeenColRhtNan = 8,
};

// The groups of a job, on the device.
struct GroupList {
  const GroupTask* groups;
  const int64_t* chunks;  // [g]: chunks of rows before group g; [count]: the
                          // total
  int64_t count;
  int64_t chunk_count;    // chunks[count]
  const int64_t* strips;  // like `chunks`, for strips
  int64_t strip_count;
  int64_t rows;  // sum over all groups
  int64_t cols;  // K
};

// Arguments of kernels that find the maxima of one tensor. `*_signs` point to
// 16 floats s[i] / 4, or are nullptr if that rotated maximum is not wanted.
// Rotating the rows needs cols % 16 == 0.
struct AmaxArgs {
  Matrix x;
  const float* row_signs;
  const float* col_signs;
  Found* found;
  float signs[16];  // the same signs, if any rotated maximum is wanted
};

// Arguments of kernels that find the maxima of each group and, for pointers
// that are set, of each line. Maxima of rotated lines are found if there are
// signs. Kernels update the maxima by atomicMax, so the caller must zero them
// first.
struct SpanAmaxArgs {
  GroupList list;
  DType dtype;
  const float* row_signs;
  const float* col_signs;
  int rotation;    // dimension, if there are signs
  Found* found;    // one for each group
  uint32_t* seen;  // Seen bits of the whole input
  // Maxima of lines as fp32 bits: one for each row of the payload, and one for
  // each of the K columns of each group.
  uint32_t* rows;
  uint32_t* rotated_rows;
  uint32_t* columns;
  uint32_t* rotated_columns;
  bool propagate;  // A line that holds NaN has the maximum NaN.
};

inline constexpr size_t kCodeTableBytes = 1280;  // size of the largest
                                                 // CodeTable

// The source of an amax: a given number, or one of the maxima in Found.
enum class FoundAmax { kGiven, kPlain, kRowRht, kColRht };
// Arguments of the kernel that computes every group's amaxes from its maxima
// and writes them to the output.
struct WriteAmaxArgs {
  static constexpr int kMax = 4;
  struct Entry {
    float* to;  // one for each group
    FoundAmax source;
    float number;  // kGiven: the amax; else a factor of the maximum
  };
  Entry entries[kMax];
  int count;
  bool propagate;  // An amax is NaN if its source holds NaN.
  int64_t groups;
  const Found* found;  // one for each group
  // The code tables to make. Each group has two of kCodeTableBytes, for the
  // rowwise and the columnwise copy. `amaxes` has the amaxes of either copy,
  // one for each group, or nullptr for a copy that is not made.
  CodeTable table;
  std::byte* tables;
  const float* amaxes[2];
  float range;  // EncodeParams::range
};

// Arguments of the kernel that writes the scales of FP8 tensors. The tensors'
// amaxes must already be in the output.
struct TensorScaleArgs {
  GroupList list;
  EncodeParams params;
  const float* scales;  // given scales, one for each group; nullptr: computed
                        // from the amaxes
};

// Arguments of encoders, which write codes and block scales of every requested
// copy.
struct EncodeArgs {
  GroupList list;
  EncodeParams params;
  int rotation;  // the larger rotation dimension of the copies; 0: none
  uint32_t* seen;
  // Error statistics of the rowwise and the columnwise copy, or nullptr.
  ErrorSums* sums;
  // Group 0. All groups have the same copies, rotations and layouts. A kernel
  // for a single group uses this one instead of reading `list`.
  GroupTask first;
  const std::byte* tables;  // see WriteAmaxArgs
  // Whether the encoder also sums the columns of each 128 rows for dbias.
  bool dbias;
  float signs[kBlock];  // s[i] / 4 of a rotation of dimension 16
  // The amax of the rowwise copy if there is a single group and the host knows
  // the amax; else negative.
  float known_amax;
};

// Arguments of decoders, which decode one copy.
struct DecodeArgs {
  GroupList list;  // A group's `x` is its first output row.
  // Group 0. A kernel for a single group uses it instead of reading `list`.
  GroupTask only;
  DequantizeParams params;
  int rotation;         // dimension; 0: the copy is not rotated
  float signs[kBlock];  // s[i] / 4 of a rotation of dimension 16
};

// Arguments of kernels that rotate a tensor.
struct RotateArgs {
  Matrix x;
  std::byte* out;
  DType dtype;  // dtype of `out`
  const float* signs;
  int dimension;  // divides cols
  bool inverse;
  Found* found;           // receives kSeenNan and kSeenInf
  float sixteen[kBlock];  // the same signs, for dimension 16
};

// Arguments of the kernel that zeroes the runs of a list in device memory.
struct ZeroRunsArgs {
  static constexpr int64_t kPiece = 4096;  // bytes that a CTA writes at a time
  // `count` rows of `width` bytes, which start `pitch` bytes apart.
  struct Run {
    std::byte* to;
    size_t pitch;
    size_t width;
    size_t count;
  };
  const Run* runs;
  const int64_t* pieces;  // [r]: pieces before run r; [count]: the total
  int64_t count;
  int64_t piece_count;
};
// Arguments of the kernel that zeroes a few runs. No run may be empty.
struct ZeroFewRunsArgs {
  static constexpr int kMax = 8;
  ZeroRunsArgs::Run runs[kMax];
  int count;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ARGS_H_
