// The kernels that can compute a plan, one row each. A row begins with the
// enumerator that kernels/cuda/choice.h chooses and the kernel's name;
// kernels/cuda/launch.h declares and calls the launcher of that name
// (EncodeSpans: LaunchEncodeSpans).
//
// A launcher picks the instance of its kernel for the device and for the types,
// copies and rotations of its arguments. It never launches a different kernel.
#ifndef QUANTD_KERNELS_CUDA_KERNELS_H_
#define QUANTD_KERNELS_CUDA_KERNELS_H_

namespace quantd::cuda {

// Shared memory of a CTA in KiB. A kernel that streams tiles has an instance
// for each size.
enum class SharedMemory { kSmall = 99, kMedium = 163, kLarge = 227 };

constexpr int BytesOf(SharedMemory size) {
  return static_cast<int>(size) * 1024;
}

// The size for a device whose CTAs may use `bytes` of shared memory.
constexpr SharedMemory SharedMemoryFor(int bytes) {
  using enum SharedMemory;
  return bytes >= BytesOf(kLarge)    ? kLarge
         : bytes >= BytesOf(kMedium) ? kMedium
                                     : kSmall;
}

// The type of table, made for an amax, in which an NVFP4 encoder looks up codes
// (encode/nvfp4/code_tables.cuh). kFits is for bf16; fp16 uses kValues instead.
enum class CodeTable { kNone, kMultipliers, kValues, kFits };

// Kernels for maxima of one tensor. A rotation has dimension 16.
//   kPlain        only max |x|
//   kRows         also the maximum of rotated rows
//   kTiles        also the maximum of rotated columns
//   kTensorCores  bf16, rotated: cols % 16 == 0, fewer than 2^31 rows
#define QUANTD_AMAX_OF_TENSOR(ROW) \
  ROW(kPlain, PlainAmax)           \
  ROW(kRows, AmaxOfRows)           \
  ROW(kTiles, AmaxOfTiles)         \
  ROW(kTensorCores, AmaxByTensorCores)
// Kernels for maxima of any list of groups and of their lines.
//   kLines  no rotation, rows of a multiple of 16 bytes
//   kSpans  any plan
#define QUANTD_AMAX_OF_GROUPS(ROW) \
  ROW(kLines, AmaxOfLines)         \
  ROW(kSpans, AmaxOfSpans)

// Encoders, which write codes and scales. The third column is the CodeTable
// that the kernel reads. The fourth column says whether the kernel also sums
// the columns of each 128 rows for dbias.
//
// Notes: kernels/cuda/encode/{nvfp4,fp8,frame}/NOTES.md. In the names, Rows
// means a rowwise copy alone. Tiles means the columnwise copy, both copies, or
// a rowwise copy with dbias. Squares means either copy or both, with square
// blocks.
//   kQuantizeRows       one tensor of fp32
//   kNvfp4UnderGlobal   profiles whose blocks are scaled by a global scale
//   kNvfp4ScaledRows    an amax for each row
//   kFp8QuotientRuns    profiles that divide by a tensor's scale
//   kMxfp8Strips        the columnwise copy or both, linear scales
//   kFrame...           tiles through shared memory, for plans that have no
//                       kernel above: any type and layout
//   kSpans              any plan
#define QUANTD_ENCODERS(ROW)                                                  \
  ROW(kQuantizeRows, QuantizeRows, kNone, false)                              \
  ROW(kNvfp4Rows, EncodeNvfp4Rows, kMultipliers, false)                       \
  ROW(kNvfp4ScaledRows, EncodeNvfp4ScaledRows, kNone, false)                  \
  ROW(kNvfp4Stochastic, EncodeNvfp4Stochastic, kMultipliers, false)           \
  ROW(kNvfp4FourOverSix, EncodeNvfp4FourOverSix, kNone, false)                \
  ROW(kNvfp4UnderGlobal, EncodeNvfp4UnderGlobal, kNone, false)                \
  ROW(kNvfp4Tiles, EncodeNvfp4Tiles, kFits, true)                             \
  ROW(kNvfp4StochasticTiles, EncodeNvfp4StochasticTiles, kMultipliers, true)  \
  ROW(kNvfp4FourOverSixTiles, EncodeNvfp4FourOverSixTiles, kNone, true)       \
  ROW(kNvfp4Squares, EncodeNvfp4Squares, kFits, true)                         \
  ROW(kNvfp4StochasticSquares, EncodeNvfp4StochasticSquares, kMultipliers,    \
      true)                                                                   \
  ROW(kNvfp4FourOverSixSquares, EncodeNvfp4FourOverSixSquares, kNone, true)   \
  ROW(kFp8Runs, EncodeFp8Runs, kNone, false)                                  \
  ROW(kFp8QuotientRuns, EncodeFp8QuotientRuns, kNone, false)                  \
  ROW(kFp8BlockRows, EncodeFp8BlockRows, kNone, false)                        \
  ROW(kMxfp8Rows, EncodeMxfp8Rows, kNone, false)                              \
  ROW(kFp8TensorTiles, EncodeFp8TensorTiles, kNone, true)                     \
  ROW(kFp8BlockTiles, EncodeFp8BlockTiles, kNone, true)                       \
  ROW(kMxfp8Tiles, EncodeMxfp8Tiles, kNone, true)                             \
  ROW(kMxfp8Strips, EncodeMxfp8Strips, kNone, false)                          \
  ROW(kFrameNvfp4, FrameNvfp4, kNone, true)                                   \
  ROW(kFrameNvfp4Rotated, FrameNvfp4Rotated, kNone, true)                     \
  ROW(kFrameNvfp4Stochastic, FrameNvfp4Stochastic, kNone, true)               \
  ROW(kFrameNvfp4StochasticRotated, FrameNvfp4StochasticRotated, kNone, true) \
  ROW(kFrameNvfp4FourOverSix, FrameNvfp4FourOverSix, kNone, true)             \
  ROW(kFrameNvfp4ScaleSearch, FrameNvfp4ScaleSearch, kNone, true)             \
  ROW(kFrameNvfp4OfProfiles, FrameNvfp4OfProfiles, kNone, true)               \
  ROW(kFrameNvfp4Squares, FrameNvfp4Squares, kNone, true)                     \
  ROW(kFrameNvfp4StochasticSquares, FrameNvfp4StochasticSquares, kNone, true) \
  ROW(kFrameNvfp4FourOverSixSquares, FrameNvfp4FourOverSixSquares, kNone,     \
      true)                                                                   \
  ROW(kFrameNvfp4ScaleSearchSquares, FrameNvfp4ScaleSearchSquares, kNone,     \
      true)                                                                   \
  ROW(kFrameMxfp4, FrameMxfp4, kNone, true)                                   \
  ROW(kFrameMxfp4Rotated, FrameMxfp4Rotated, kNone, true)                     \
  ROW(kFrameMxfp4Stochastic, FrameMxfp4Stochastic, kNone, true)               \
  ROW(kFrameMxfp4StochasticRotated, FrameMxfp4StochasticRotated, kNone, true) \
  ROW(kFrameMxfp4OfProfiles, FrameMxfp4OfProfiles, kNone, true)               \
  ROW(kFrameMxfp8, FrameMxfp8, kNone, true)                                   \
  ROW(kFrameMxfp8Rotated, FrameMxfp8Rotated, kNone, true)                     \
  ROW(kFrameMxfp8OfProfiles, FrameMxfp8OfProfiles, kNone, true)               \
  ROW(kFrameFp8Lines, FrameFp8Lines, kNone, true)                             \
  ROW(kFrameFp8LinesOfProfiles, FrameFp8LinesOfProfiles, kNone, true)         \
  ROW(kFrameFp8Blocks, FrameFp8Blocks, kNone, true)                           \
  ROW(kFrameFp8Squares, FrameFp8Squares, kNone, true)                         \
  ROW(kFrameFp8SquaresOfProfiles, FrameFp8SquaresOfProfiles, kNone, true)     \
  ROW(kSpans, EncodeSpans, kNone, false)

// Decoders of one copy. A rotation has dimension 16, except for kSpans.
//   kRows            rowwise, not rotated
//   kColumnsInPlace  columnwise MXFP8, whose codes are not transposed
//   kRotatedRows     rowwise NVFP4 and MX, rotated
//   kRotatedInPlace  columnwise MXFP8, rotated
//   kColumns         columnwise, codes transposed; E2M1 also rotated
//   kSpans           every format, rotation and profile
#define QUANTD_DECODERS(ROW)                 \
  ROW(kRows, DecodeRows)                     \
  ROW(kColumnsInPlace, DecodeColumnsInPlace) \
  ROW(kRotatedRows, DecodeRotatedRows)       \
  ROW(kRotatedInPlace, DecodeRotatedInPlace) \
  ROW(kColumns, DecodeColumns)               \
  ROW(kSpans, DecodeSpans)

// Kernels that rotate a tensor: kBlocks by dimension 16, kSpans by larger ones.
#define QUANTD_ROTATORS(ROW) \
  ROW(kBlocks, RotateBlocks) \
  ROW(kSpans, RotateSpans)

// Kernels that compute error statistics of the codes that an encoder has
// written.
//   kTiles  columns a multiple of 16, not rotated, numerics of profile TE
//   kSpans  any plan
#define QUANTD_ERROR_COUNTERS(ROW) \
  ROW(kTiles, CountErrorsOfTiles)  \
  ROW(kSpans, CountErrorsOfSpans)

#define QUANTD_ENUMERATOR(kernel, ...) kernel,
enum class AmaxKernel {
  kNone,
  QUANTD_AMAX_OF_TENSOR(QUANTD_ENUMERATOR)
      QUANTD_AMAX_OF_GROUPS(QUANTD_ENUMERATOR)
};
enum class EncodeKernel { kNone, QUANTD_ENCODERS(QUANTD_ENUMERATOR) };
enum class DecodeKernel { kNone, QUANTD_DECODERS(QUANTD_ENUMERATOR) };
enum class RotateKernel { kNone, QUANTD_ROTATORS(QUANTD_ENUMERATOR) };
enum class ErrorsKernel { kNone, QUANTD_ERROR_COUNTERS(QUANTD_ENUMERATOR) };
#undef QUANTD_ENUMERATOR

// The kernel that sums the columns of each 128 rows. SumGroups then adds up
// these sums.
enum class DbiasKernel {
  kNone,
  kEncoder,  // the encoder itself
  kChunks,   // SumChunks
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_KERNELS_H_
