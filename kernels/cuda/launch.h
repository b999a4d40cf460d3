// Launchers: the only interface between plain C++ and device code. Each one
// queues its kernel on a stream and returns the result of the launch. Launchers
// do not wait. They do not check whether their kernel supports the arguments:
// kernels/cuda/choice.h does that.
#ifndef QUANTD_KERNELS_CUDA_LAUNCH_H_
#define QUANTD_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/args.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/queue.h"
#include "quantd/format.h"

namespace quantd::cuda {

// Returns cudaSuccess when this program holds code for the current device.
cudaError_t FindKernels();

// Queue the chosen kernel. Return cudaErrorInvalidValue for kNone and for a
// kernel that takes other arguments.
cudaError_t Launch(AmaxKernel kernel, const AmaxArgs& args, const Queue& queue);
cudaError_t Launch(AmaxKernel kernel, const SpanAmaxArgs& args,
                   const Queue& queue);
cudaError_t Launch(EncodeKernel kernel, const EncodeArgs& args,
                   const Queue& queue);
// The statistics go into `args.sums`.
cudaError_t Launch(ErrorsKernel kernel, const EncodeArgs& args,
                   const Queue& queue);
cudaError_t Launch(DecodeKernel kernel, const DecodeArgs& args,
                   const Queue& queue);
cudaError_t Launch(RotateKernel kernel, const RotateArgs& args,
                   const Queue& queue);

// The launchers of the rows in kernels/cuda/kernels.h.
#define QUANTD_DECLARE(Args, name) \
  cudaError_t Launch##name(const Args& args, const Queue& queue);
#define QUANTD_OF_TENSOR(kernel, name) QUANTD_DECLARE(AmaxArgs, name)
#define QUANTD_OF_GROUPS(kernel, name) QUANTD_DECLARE(SpanAmaxArgs, name)
#define QUANTD_ENCODER(kernel, name, ...) QUANTD_DECLARE(EncodeArgs, name)
#define QUANTD_DECODER(kernel, name) QUANTD_DECLARE(DecodeArgs, name)
#define QUANTD_ROTATOR(kernel, name) QUANTD_DECLARE(RotateArgs, name)
QUANTD_AMAX_OF_TENSOR(QUANTD_OF_TENSOR)
QUANTD_AMAX_OF_GROUPS(QUANTD_OF_GROUPS)
QUANTD_ENCODERS(QUANTD_ENCODER)
QUANTD_ERROR_COUNTERS(QUANTD_ENCODER)
QUANTD_DECODERS(QUANTD_DECODER)
QUANTD_ROTATORS(QUANTD_ROTATOR)
#undef QUANTD_DECLARE
#undef QUANTD_OF_TENSOR
#undef QUANTD_OF_GROUPS
#undef QUANTD_ENCODER
#undef QUANTD_DECODER
#undef QUANTD_ROTATOR

// Launchers that are compiled in a separate source for each input type.
template <DType D>
cudaError_t LaunchEncodeSpansOf(const EncodeArgs& args, const Queue& queue);
template <DType D>
cudaError_t LaunchCountErrorsOfTilesOf(const EncodeArgs& args,
                                       const Queue& queue);
template <DType D>
cudaError_t LaunchCountErrorsOfSpansOf(const EncodeArgs& args,
                                       const Queue& queue);

// Launchers of kernels that are not part of a KernelChoice.

cudaError_t LaunchWriteAmax(const WriteAmaxArgs& args, const Queue& queue);
// Computes scales of FP8 tensors.
cudaError_t LaunchTensorScales(const TensorScaleArgs& args, const Queue& queue);
// Sum the columns of each 128 rows, and then of each group from these sums.
cudaError_t LaunchSumChunks(const GroupList& list, DType input,
                            const Queue& queue);
cudaError_t LaunchSumGroups(const GroupList& list, DType output,
                            const Queue& queue);
cudaError_t LaunchZeroRuns(const ZeroRunsArgs& args, const Queue& queue);
cudaError_t LaunchZeroFewRuns(const ZeroFewRunsArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_LAUNCH_H_
