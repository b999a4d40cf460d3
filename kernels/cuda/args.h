// Arguments of kernels: plain data, passed by value through the launchers
// (kernels/cuda/launch.h).
//
// Every pointer is device memory of the current device, aligned to 256 bytes
// (amax and signs: 4), and must stay valid until the stream has passed.
// Matrices are row-major without padding. No dimension may be 0; groups may be
// empty, as long as not all are.
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
// Rows of a strip. No block has more, so none crosses a strip's edge.
inline constexpr int kStripRows = 32;

// Findings of kernels beside their output. The caller zeroes them first. Maxima
// are fp32 bits with NaN dropped.
struct Found {
  uint32_t plain;
  uint32_t row_rht;
  uint32_t col_rht;
  uint32_t seen;  // Seen bits
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
  const int64_t* chunks;  // [g]: rows of tiles before group g; [count]: the
                          // total
  int64_t count;
  int64_t chunk_count;    // chunks[count]
  const int64_t* strips;  // as `chunks`, for strips of rows
  int64_t strip_count;
  int64_t rows;  // sum over all groups
  int64_t cols;  // K
};

// Finds maxima of one tensor. `*_signs` are 16 floats s[i] / 4, or nullptr if
// that rotated maximum is not wanted. Rotating the rows needs cols % 16 == 0.
struct AmaxArgs {
  Matrix x;
  const float* row_signs;
  const float* col_signs;
  Found* found;
  float signs[16];  // the same signs, if any rotated maximum is wanted
};

// Finds maxima of a list of groups, plain and, if there are signs, rotated: of
// each group and, for pointers that are set, of each line, by atomicMax onto
// zeros.
struct SpanAmaxArgs {
  GroupList list;
  DType dtype;
  const float* row_signs;
  const float* col_signs;
  int rotation;    // dimension, if there are signs
  Found* found;    // one for each group
  uint32_t* seen;  // Seen bits of the whole input
  // fp32 bits; for the rows of the payload, and for the K columns of each
  // group.
  uint32_t* rows;
  uint32_t* rotated_rows;
  uint32_t* columns;
  uint32_t* rotated_columns;
  bool propagate;  // A line that holds NaN has the maximum NaN.
};

inline constexpr size_t kCodeTableBytes = 1280;  // size of the largest
                                                 // CodeTable

// Writes amaxes to their places, for every group, from its maxima.
enum class FoundAmax { kGiven, kPlain, kRowRht, kColRht };
struct WriteAmaxArgs {
  static constexpr int kMax = 4;
  struct Entry {
    float* to;  // one for each group
    FoundAmax source;
    float number;  // kGiven: the amax; else the factor of a maximum
  };
  Entry entries[kMax];
  int count;
  bool propagate;  // An amax is NaN where its source held one.
  int64_t groups;
  const Found* found;  // one for each group
  // Tables to make from the amaxes of both copies (nullptr for a copy that is
  // not made), one for each group: two of kCodeTableBytes each, rowwise first.
  CodeTable table;
  std::byte* tables;
  const float* amaxes[2];
  float range;  // as in EncodeParams
};

// Writes scales of FP8 tensors from their amaxes, which must have been written.
struct TensorScaleArgs {
  GroupList list;
  EncodeParams params;
  const float* scales;  // one for each group; nullptr: from the amax
};

// Writes codes and block scales of every copy that is wanted.
struct EncodeArgs {
  GroupList list;
  EncodeParams params;
  int rotation;  // the larger of the copies' dimensions; 0: neither is rotated
  uint32_t* seen;
  // Error statistics of the rowwise and the columnwise copy, if wanted.
  ErrorSums* sums;
  // Group 0. All groups have its copies, rotations and layouts; a kernel for a
  // single group need not look it up.
  GroupTask first;
  const std::byte* tables;  // see WriteAmaxArgs
  // Whether the encoder also makes the sums of each 128 rows for dbias.
  bool dbias;
  float signs[kBlock];  // s[i] / 4 of a rotation of dimension 16
  // The amax of the rowwise copy of a single group, if the host knows it; else
  // negative.
  float known_amax;
};

// Decodes one copy.
struct DecodeArgs {
  GroupList list;  // `x` of a group is its first output row.
  // The first group. A kernel for a single group gets it as an argument and
  // waits for no look-up.
  GroupTask only;
  DequantizeParams params;
  int rotation;         // dimension; 0: the copy is not rotated
  float signs[kBlock];  // s[i] / 4 of a rotation of dimension 16
};

struct RotateArgs {
  Matrix x;
  std::byte* out;
  DType dtype;  // dtype of `out`
  const float* signs;
  int dimension;  // divides cols
  bool inverse;
  Found* found;           // receives the bits of NaN and Inf
  float sixteen[kBlock];  // the same signs, for dimension 16
};

// Writes zeros in runs, given as a list on the device.
struct ZeroRunsArgs {
  static constexpr int64_t kPiece = 4096;  // bytes that a CTA writes at a time
  // `count` pieces of `width` bytes, whose starts are `pitch` bytes apart.
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
// Writes zeros in a few runs, which are passed as arguments. None may be empty.
struct ZeroFewRunsArgs {
  static constexpr int kMax = 8;
  ZeroRunsArgs::Run runs[kMax];
  int count;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ARGS_H_
