// Which kernels quantize and which decode: launchers that pick one of those
// below them.
#ifndef QUANTD_KERNELS_CUDA_DISPATCH_H_
#define QUANTD_KERNELS_CUDA_DISPATCH_H_

#include "kernels/cuda/launch.h"
#include "kernels/cuda/spans.h"

namespace quantd::cuda {

// Codes and block scales of every copy that is wanted.
cudaError_t LaunchEncode(const EncodeArgs& args, const Queue& queue);
// Whether that makes the chunk sums of dbias, too, where they are wanted.
bool SumsChunks(const EncodeArgs& args);

// Of fp32 and fp16: LaunchEncode has better kernels for bf16.
cudaError_t LaunchQuantize(const QuantizeArgs& args, const Queue& queue);

// Decodes any copy.
cudaError_t LaunchDecode(const DecodeArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DISPATCH_H_
