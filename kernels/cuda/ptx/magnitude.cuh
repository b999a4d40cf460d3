// Magnitudes of fp32 numbers, including NaN.
#ifndef QUANTD_KERNELS_CUDA_PTX_MAGNITUDE_CUH_
#define QUANTD_KERNELS_CUDA_PTX_MAGNITUDE_CUH_

namespace quantd::cuda {

// The larger of the magnitude `max` and |v|. NaN if either is NaN.
__device__ __forceinline__ float LargerMagnitude(float max, float v) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(max), "f"(fabsf(v)));
  return larger;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_MAGNITUDE_CUH_
