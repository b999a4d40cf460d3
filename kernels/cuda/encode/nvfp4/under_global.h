// The launcher of under_global.cu where more is known than the others take.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_UNDER_GLOBAL_H_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_UNDER_GLOBAL_H_

#include <cuda_runtime_api.h>

#include "kernels/arith/profile/global_multipliers.h"
#include "kernels/cuda/args.h"
#include "kernels/cuda/queue.h"

namespace quantd::cuda {

// What LaunchEncodeNvfp4UnderGlobal does, of one group; `known` is what its
// amax decides, usable, for which CTAs then need not wait.
cudaError_t LaunchEncodeNvfp4UnderKnown(const EncodeArgs& args,
                                        const GlobalMultipliers& known,
                                        const Queue& queue);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_UNDER_GLOBAL_H_
