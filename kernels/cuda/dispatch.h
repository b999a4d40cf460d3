// Queues the kernel that was chosen, by its launcher. cudaErrorInvalidValue:
// the choice is that there is none, or its kernel takes other arguments than
// these.
#ifndef QUANTD_KERNELS_CUDA_DISPATCH_H_
#define QUANTD_KERNELS_CUDA_DISPATCH_H_

#include <cuda_runtime_api.h>

#include <optional>

#include "kernels/cuda/args.h"
#include "kernels/cuda/choice.h"
#include "kernels/cuda/queue.h"

namespace quantd::cuda {

cudaError_t LaunchAmax(AmaxKernel kernel, const AmaxArgs& args,
                       const Queue& queue);
// Of lists of groups: those that searches_groups() are.
cudaError_t LaunchAmax(AmaxKernel kernel, const SpanAmaxArgs& args,
                       const Queue& queue);

// What the encoder of a Quantize looks up under its amaxes.
CodeTable CodeTableOf(const Work& work);
// `amax`: the rowwise copy's, where there is one and the host knows it.
cudaError_t LaunchEncode(EncodeKernel kernel, const EncodeArgs& args,
                         std::optional<float> amax, const Queue& queue);
// By the type of the input.
cudaError_t LaunchCountErrors(ErrorsKernel kernel, const EncodeArgs& args,
                              const Queue& queue);
cudaError_t LaunchDecode(DecodeKernel kernel, const DecodeArgs& args,
                         const Queue& queue);
cudaError_t LaunchRotate(RotateKernel kernel, const RotateArgs& args,
                         const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DISPATCH_H_
