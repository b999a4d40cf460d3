// The kernels that a plan may be computed by, one row each. A row begins with
// the enumerator that kernels/cuda/choice.h chooses and the kernel's name;
// kernels/cuda/launch.h declares and calls the launcher of that name
// (EncodeSpans: LaunchEncodeSpans).
//
// A launcher instantiates its kernel for the types, copies and rotations of its
// arguments and for the device, and uses the form that they need. It never uses
// another kernel.
#ifndef QUANTD_KERNELS_CUDA_KERNELS_H_
#define QUANTD_KERNELS_CUDA_KERNELS_H_

namespace quantd::cuda {

// Shared memory of a CTA in KiB. A kernel that streams tiles has a form for
// each size.
enum class SharedMemory { kSmall = 99, kMedium = 163, kLarge = 227 };

constexpr int BytesOf(SharedMemory size) {
  return static_cast<int>(size) * 1024;
}

// The form for a device whose CTAs may have that many bytes.
constexpr SharedMemory SharedMemoryFor(int bytes) {
  using enum SharedMemory;
  return bytes >= BytesOf(kLarge)    ? kLarge
         : bytes >= BytesOf(kMedium) ? kMedium
                                     : kSmall;
}

// The table that an encoder looks up under an amax, if any: NVFP4's
// code_tables.cuh. kFits is for bf16; kValues takes its place for fp16.
enum class CodeTable { kNone, kMultipliers, kValues, kFits };

// Kernels for maxima of one tensor. A rotation has dimension 16.
//   kPlain        only max |x|
//   kRows         and that of rotated rows
//   kTiles        and that of rotated columns
//   kTensorCores  bf16, rotated: cols % 16 == 0, fewer than 2^31 rows
#define QUANTD_AMAX_OF_TENSOR(ROW) \
  ROW(kPlain, PlainAmax)           \
  ROW(kRows, AmaxOfRows)           \
  ROW(kTiles, AmaxOfTiles)         \
  ROW(kTensorCores, AmaxByTensorCores)
// Kernels for maxima of any list of groups and of their lines.
//   kLines  nothing rotated, rows of a multiple of 16 bytes
//   kSpans  everything
#define QUANTD_AMAX_OF_GROUPS(ROW) \
  ROW(kLines, AmaxOfLines)         \
  ROW(kSpans, AmaxOfSpans)

// Encoders, which write codes and scales. The third column is the table that
// the kernel looks up under an amax; the fourth, whether it also sums each 128
// rows for dbias.
//
// Notes: kernels/cuda/encode/{nvfp4,fp8,frame}/NOTES.md. Rows are a rowwise
// copy alone; tiles are the columnwise copy, both, or a rowwise one with dbias;
// squares are either copy or both.
//   kQuantizeRows       one tensor of fp32
//   kNvfp4UnderGlobal   profiles whose blocks are scaled by a global scale
//   kNvfp4ScaledRows    an amax for each row
//   kFp8QuotientRuns    profiles that divide by a tensor's scale
//   kMxfp8Strips        the columnwise copy or both, linear scales
//   kFrame...           tiles through shared memory, for plans that have no
//                       kernel above: any type and layout
//   kSpans              everything
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
  ROW(kFrameNvfp4OfProfiles, FrameNvfp4OfProfiles, kNone, true)               \
  ROW(kFrameNvfp4Squares, FrameNvfp4Squares, kNone, true)                     \
  ROW(kFrameNvfp4StochasticSquares, FrameNvfp4StochasticSquares, kNone, true) \
  ROW(kFrameNvfp4FourOverSixSquares, FrameNvfp4FourOverSixSquares, kNone,     \
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
//   kRows            stored along rows, not rotated
//   kColumnsInPlace  columnwise MXFP8, which is not stored as the transpose
//   kRotatedRows     NVFP4 and MX
//   kRotatedInPlace  columnwise MXFP8
//   kColumns         stored as the transpose; E2M1 also rotated
//   kSpans           every format, rotation and profile
#define QUANTD_DECODERS(ROW)                 \
  ROW(kRows, DecodeRows)                     \
  ROW(kColumnsInPlace, DecodeColumnsInPlace) \
  ROW(kRotatedRows, DecodeRotatedRows)       \
  ROW(kRotatedInPlace, DecodeRotatedInPlace) \
  ROW(kColumns, DecodeColumns)               \
  ROW(kSpans, DecodeSpans)

// Kernels that rotate a tensor: by dimension 16, and by larger ones.
#define QUANTD_ROTATORS(ROW) \
  ROW(kBlocks, RotateBlocks) \
  ROW(kSpans, RotateSpans)

// Kernels for statistics of what an encoder has written.
//   kTiles  whole runs of sixteen, not rotated, profile TE
//   kSpans  everything
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

// Makes the sums of each 128 rows, which SumGroups then adds up.
enum class DbiasKernel {
  kNone,
  kEncoder,  // the encoder makes them, too
  kChunks,   // SumChunks
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_KERNELS_H_
