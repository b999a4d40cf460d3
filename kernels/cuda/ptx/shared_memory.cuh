// Accesses shared memory by 32-bit addresses, for code in which computing
// pointers costs too much.
#ifndef QUANTD_KERNELS_CUDA_PTX_SHARED_MEMORY_CUH_
#define QUANTD_KERNELS_CUDA_PTX_SHARED_MEMORY_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace quantd::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Keeps a value in a register. Otherwise the compiler would compute it again in
// every iteration of a loop.
__device__ __forceinline__ uint32_t Kept(uint32_t v) {
  asm volatile("" : "+r"(v));
  return v;
}

__device__ __forceinline__ uint32_t LoadShared16(uint32_t at) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t LoadShared(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ uint2 LoadShared2(uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 LoadShared4(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ __forceinline__ void StoreShared16(uint32_t at, uint32_t v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at),
               "h"(static_cast<uint16_t>(v))
               : "memory");
}
__device__ __forceinline__ void StoreShared(uint32_t at, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void StoreShared(uint32_t at, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y)
               : "memory");
}
__device__ __forceinline__ void StoreShared(uint32_t at, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_SHARED_MEMORY_CUH_
