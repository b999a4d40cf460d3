// Loads and stores matrices of 16-bit elements as tensor core fragments.
#ifndef QUANTD_KERNELS_CUDA_PTX_FRAGMENTS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_FRAGMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/shared_memory.cuh"
#include "quantd/format.h"

namespace quantd::cuda {

// Loads four 8 x 8 fragments. Lane 8i + r passes the shared address of row r of
// fragment i. Lane 4r + c gets elements 2c and 2c + 1 of row r of each fragment
// or, transposed, of column r.
template <bool kTransposed>
__device__ __forceinline__ void LoadFragmentsAt(uint32_t at, uint32_t (&f)[4]) {
  if constexpr (kTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
        : "r"(at)
        : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at)
                 : "memory");
  }
}
// Stores four fragments, with the addresses and elements of
// LoadFragmentsAt<false>.
__device__ __forceinline__ void StoreFragmentsAt(uint32_t at,
                                                 const uint32_t (&f)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
      "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3])
      : "memory");
#else
  const unsigned lane = threadIdx.x % 32;
  QUANTD_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t row = __shfl_sync(0xFFFFFFFFu, at, 8 * i + lane / 4);
    StoreShared(row + lane % 4 * 4, f[i]);
  }
#endif
}
template <bool kTransposed>
__device__ __forceinline__ void LoadFragments(const void* row,
                                              uint32_t (&f)[4]) {
  LoadFragmentsAt<kTransposed>(SharedAddress(row), f);
}

// Computes d = a * b, where a is 16 x 16 and b is 16 x 8.
template <DType D>
__device__ __forceinline__ void Multiply(const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1, float (&d)[4]) {
  d[0] = d[1] = d[2] = d[3] = 0.0f;
  if constexpr (D == DType::kBF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_FRAGMENTS_CUH_
