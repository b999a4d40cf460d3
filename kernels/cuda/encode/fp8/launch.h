// Launchers of the tuned kernels for FP8 with tensor scales or blocks of
// 1 x 128, and for MXFP8: bf16, groups, linear or swizzled scales, column sums.
// kernels/cuda/encode/fp8/NOTES.md says why they are as they are.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_LAUNCH_H_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_LAUNCH_H_

#include "kernels/cuda/spans.h"

namespace quantd::cuda {

// Whether LaunchEncodeFp8 takes these; if not, LaunchEncode's generic kernels
// do.
bool TakesFp8(const EncodeArgs& args);

// Codes, scales and, where wanted, the chunk sums of dbias.
cudaError_t LaunchEncodeFp8(const EncodeArgs& args, const Queue& queue);

// Its parts, each in a translation unit of its own.
template <Scaling S>
cudaError_t LaunchEncodeFp8Of(const EncodeArgs& args, const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_LAUNCH_H_
