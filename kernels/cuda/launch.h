// Launchers: the only door between plain C++ and device code. Each one queues
// its kernel on a stream and returns what the launch returned; none waits, and
// none decides whether its kernel can do what it is asked for: that is
// kernels/cuda/choice.h's.
#ifndef QUANTD_KERNELS_CUDA_LAUNCH_H_
#define QUANTD_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <optional>

#include "kernels/arith/profile/global_multipliers.h"
#include "kernels/cuda/args.h"
#include "kernels/cuda/queue.h"
#include "kernels/plan/format.h"

namespace quantd::cuda {

// Returns cudaSuccess when this program holds code for the current device.
cudaError_t FindKernels();

// --- amax: kernels/cuda/amax ------------------------------------------------

cudaError_t LaunchPlainAmax(const AmaxArgs& args, const Queue& queue);
cudaError_t LaunchAmaxOfRows(const AmaxArgs& args, const Queue& queue);
cudaError_t LaunchAmaxOfTiles(const AmaxArgs& args, const Queue& queue);
// Needs bf16, cols % 16 == 0, fewer than 2^31 rows and a rotation.
cudaError_t LaunchAmaxByTensorCores(const AmaxArgs& args, const Queue& queue);
cudaError_t LaunchAmaxOfSpans(const SpanAmaxArgs& args, const Queue& queue);
// The same without rotations, of rows that are a multiple of 16 bytes.
cudaError_t LaunchAmaxOfLines(const SpanAmaxArgs& args, const Queue& queue);
cudaError_t LaunchWriteAmax(const WriteAmaxArgs& args, const Queue& queue);

// --- encode: kernels/cuda/encode --------------------------------------------

// NVFP4 of fp32, the rowwise copy alone: `first` is the only group.
cudaError_t LaunchQuantizeRows(const EncodeArgs& args, const Queue& queue);

// NVFP4 of bf16 and fp16. Rows: the rowwise copy alone. Tiles, which rotate
// bf16 alone: the columnwise copy, both or the rowwise one with dbias; squares
// rounded stochastically, too. Squares: either copy or both. `amax`: the
// rowwise copy's one, where it was given.
cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& args,
                                  std::optional<float> amax,
                                  const Queue& queue);
cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchEncodeNvfp4Squares(const EncodeArgs& args,
                                     const Queue& queue);
// What these two leave to others: what is rounded stochastically or made by
// 4over6, tiles with a columnwise copy alone.
cudaError_t LaunchEncodeNvfp4StochasticTiles(const EncodeArgs& args,
                                             const Queue& queue);
cudaError_t LaunchEncodeNvfp4FourOverSixTiles(const EncodeArgs& args,
                                              const Queue& queue);
cudaError_t LaunchEncodeNvfp4StochasticSquares(const EncodeArgs& args,
                                               const Queue& queue);
cudaError_t LaunchEncodeNvfp4FourOverSixSquares(const EncodeArgs& args,
                                                const Queue& queue);
// The rowwise copy alone, whose blocks work with a global scale.
cudaError_t LaunchEncodeNvfp4UnderGlobal(const EncodeArgs& args,
                                         const Queue& queue);
// The same of one group of bf16, where `known` is what its amax decides,
// usable: CTAs need not wait for it.
cudaError_t LaunchEncodeNvfp4UnderKnown(const EncodeArgs& args,
                                        const GlobalMultipliers& known,
                                        const Queue& queue);
// The rowwise copy alone, each row under an amax of its own.
cudaError_t LaunchEncodeNvfp4ScaledRows(const EncodeArgs& args,
                                        const Queue& queue);
// The rowwise copy alone, rounded stochastically or made by 4over6.
cudaError_t LaunchEncodeNvfp4Stochastic(const EncodeArgs& args,
                                        const Queue& queue);
cudaError_t LaunchEncodeNvfp4FourOverSix(const EncodeArgs& args,
                                         const Queue& queue);

// FP8 and MXFP8 of bf16 and fp16, one translation unit for each scaling. Runs
// and rows: the rowwise copy alone, of a tensor's scale and of blocks. Tiles:
// the columnwise copy, both, or either with dbias. Strips: MXFP8's columnwise
// copy or both, with linear scales.
cudaError_t LaunchFp8Runs(const EncodeArgs& args, const Queue& queue);
template <Scaling S>
cudaError_t LaunchFp8Rows(const EncodeArgs& args, const Queue& queue);
template <Scaling S>
cudaError_t LaunchFp8Tiles(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchFp8Strips(const EncodeArgs& args, const Queue& queue);

// Tiles through shared memory, for whatever has no kernel above
// (kernels/cuda/encode/frame).
cudaError_t LaunchNvfp4Frame(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchSquaresFrame(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchFp8Frame(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchMxFrame(const EncodeArgs& args, const Queue& queue);

// Every format, option and list of groups, one translation unit for each dtype.
template <DType D>
cudaError_t LaunchEncodeSpans(const EncodeArgs& args, const Queue& queue);

// Statistics, into `args.sums`, of the copies that those have made. Tiles:
// whole runs of sixteen, none of them rotated, under no profile's arithmetic.
// Spans: any.
template <DType D>
cudaError_t LaunchCountErrorsOfTiles(const EncodeArgs& args,
                                     const Queue& queue);
template <DType D>
cudaError_t LaunchCountErrorsOfSpans(const EncodeArgs& args,
                                     const Queue& queue);

// Scales of FP8 tensors.
cudaError_t LaunchTensorScales(const TensorScaleArgs& args, const Queue& queue);

// --- decode: kernels/cuda/decode --------------------------------------------

// Copies that lie as the output does and are not rotated: stored along their
// rows, and MXFP8's columnwise one.
cudaError_t LaunchDecodeRows(const DecodeArgs& args, const Queue& queue);
cudaError_t LaunchDecodeColumnsInPlace(const DecodeArgs& args,
                                       const Queue& queue);
// NVFP4 and MX rotated by 16: rowwise, and MXFP8's columnwise copy.
cudaError_t LaunchDecodeRotatedRows(const DecodeArgs& args, const Queue& queue);
cudaError_t LaunchDecodeRotatedInPlace(const DecodeArgs& args,
                                       const Queue& queue);
// Copies that are stored as the transpose; NVFP4 and MXFP4 also rotated by 16.
cudaError_t LaunchDecodeColumns(const DecodeArgs& args, const Queue& queue);
// Any format, rotation and profile.
cudaError_t LaunchDecodeSpans(const DecodeArgs& args, const Queue& queue);

// --- whole matrices and groups ----------------------------------------------

// Rotations of dimension 16, and of the larger ones.
cudaError_t LaunchRotateBlocks(const RotateArgs& args, const Queue& queue);
cudaError_t LaunchRotateSpans(const RotateArgs& args, const Queue& queue);

cudaError_t LaunchDbias(const DbiasArgs& args, const Queue& queue);
// Its first step alone: the sums of each 128 rows.
cudaError_t LaunchSumChunks(const GroupList& list, DType input,
                            const Queue& queue);
cudaError_t LaunchZeroRuns(const ZeroRunsArgs& args, const Queue& queue);
cudaError_t LaunchZeroFewRuns(const ZeroFewRunsArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_LAUNCH_H_
