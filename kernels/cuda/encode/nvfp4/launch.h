// Launchers of the tuned NVFP4 kernels: bf16, blocks of 16 or squares, rotation
// of dimension 16, groups, linear or swizzled scales, column sums. Stochastic
// rounding and 4over6 of rowwise copies alone, without the column sums.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_LAUNCH_H_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_LAUNCH_H_

#include "kernels/cuda/spans.h"

namespace quantd::cuda {

// Whether LaunchEncodeNvfp4 takes these; if not, LaunchEncode's generic kernels
// do.
bool TakesNvfp4(const EncodeArgs& args);

// Whether the chunk sums of dbias are wanted and LaunchEncodeNvfp4 makes them.
bool SumsChunksNvfp4(const EncodeArgs& args);

// Codes and scales, and those sums.
cudaError_t LaunchEncodeNvfp4(const EncodeArgs& args, const Queue& queue);

// Its parts: the rowwise copy alone; the columnwise one, alone or with it.
cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& args, const Queue& queue);
cudaError_t LaunchEncodeNvfp4Tiles(const EncodeArgs& args, const Queue& queue);
// Squares, either copy or both.
cudaError_t LaunchEncodeNvfp4Squares(const EncodeArgs& args,
                                     const Queue& queue);
// Rowwise copies that are rounded stochastically or made by 4over6.
cudaError_t LaunchEncodeNvfp4Stochastic(const EncodeArgs& args,
                                        const Queue& queue);
cudaError_t LaunchEncodeNvfp4FourOverSix(const EncodeArgs& args,
                                         const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_LAUNCH_H_
