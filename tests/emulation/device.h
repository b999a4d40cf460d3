// CUDA's device side as C++: macros, intrinsics, operations of warps, and
// atomics for translated sources. The compiler's -include includes it first.
#ifndef QUANTD_TESTS_EMULATION_DEVICE_H_
#define QUANTD_TESTS_EMULATION_DEVICE_H_

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/emulation/ptx.h"
#include "tests/emulation/threads.h"

// Sources after this line are device code for the architecture of the build.
#define __CUDA_ARCH__ QUANTD_EMULATED_ARCH
#if QUANTD_EMULATED_ARCH >= 1000  // sm_100a or sm_120a
#define __CUDA_ARCH_SPECIFIC__ QUANTD_EMULATED_ARCH
#define __CUDA_ARCH_FAMILY_SPECIFIC__ (QUANTD_EMULATED_ARCH / 100 * 100)
#endif
#undef __constant__
#undef __shared__
#undef __device__
#undef __global__
#undef __host__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
// CTAs run one after the other, so they can share static memory.
#define __shared__ static
#define __constant__ static

#define __builtin_assume(x) ((void)(x))
inline bool __isGlobal(const void*) { return true; }

inline uint32_t __float_as_uint(float v) { return std::bit_cast<uint32_t>(v); }
inline float __uint_as_float(uint32_t v) { return std::bit_cast<float>(v); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float2 __fmul2_rn(float2 a, float2 b) { return {a.x * b.x, a.y * b.y}; }
inline float2 __ffma2_rn(float2 a, float2 b, float2 c) {
  return {std::fma(a.x, b.x, c.x), std::fma(a.y, b.y, c.y)};
}
// Rounds the fp64 result towards zero. (The error of fp64 is far smaller than
// the last place of fp32.)
inline float __fmaf_rz(float a, float b, float c) {
  const double exact =
      std::fma(static_cast<double>(a), b, static_cast<double>(c));
  const auto rounded = static_cast<float>(exact);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(exact)
             ? std::nextafter(rounded, 0.0f)
             : rounded;
}

// The larger number, or the other argument if one is NaN. (The C library's
// fmaxf would return a signalling NaN.)
inline float EmulatedLarger(float a, float b) {
  return std::isnan(a) ? b : std::isnan(b) || a > b ? a : b;
}
inline float EmulatedSmaller(float a, float b) {
  return std::isnan(a) ? b : std::isnan(b) || a < b ? a : b;
}
#define fmaxf EmulatedLarger
#define fminf EmulatedSmaller

inline int __popc(unsigned v) { return std::popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = a | uint64_t{b} << 32;
  unsigned word = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = selector >> (4 * i) & 0xF;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (which & 7))) & 0xFF;
    if (which & 8) byte = byte & 0x80 ? 0xFF : 0;
    word |= byte << (8 * i);
  }
  return word;
}
template <typename F>
unsigned OfHalves(unsigned a, unsigned b, const F& f) {
  const auto low = static_cast<uint16_t>(
      f(static_cast<uint16_t>(a), static_cast<uint16_t>(b)));
  const auto high = static_cast<uint16_t>(
      f(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16)));
  return low | unsigned{high} << 16;
}
inline unsigned __vminu2(unsigned a, unsigned b) {
  return OfHalves(a, b, [](uint16_t x, uint16_t y) { return std::min(x, y); });
}
inline unsigned __vmaxu2(unsigned a, unsigned b) {
  return OfHalves(a, b, [](uint16_t x, uint16_t y) { return std::max(x, y); });
}
inline unsigned __vimin3_u16x2(unsigned a, unsigned b, unsigned c) {
  return __vminu2(__vminu2(a, b), c);
}
inline unsigned __viaddmin_u16x2(unsigned a, unsigned b, unsigned c) {
  const unsigned sum =
      OfHalves(a, b, [](uint16_t x, uint16_t y) { return x + y; });
  return __vminu2(sum, c);
}
inline int __viaddmax_s32(int a, int b, int c) { return std::max(a + b, c); }
inline unsigned __viaddmin_u32(unsigned a, unsigned b, unsigned c) {
  return std::min(a + b, c);
}
using std::max;
using std::min;
inline int64_t min(int64_t a, int b) { return std::min<int64_t>(a, b); }
inline uint32_t min(uint32_t a, int b) {
  return std::min<uint32_t>(a, static_cast<uint32_t>(b));
}

template <typename T>
T __ldg(const T* p) {
  return *p;
}
inline size_t __cvta_generic_to_shared(const void* p) {
  return ::emulation::ToShared(p);
}
// (Atomics and stores take effect at once.)
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { std::abort(); }

// --- host functions that take a kernel --------------------------------------

template <typename... Formal>
cudaError_t cudaFuncSetAttribute(void (*)(Formal...), cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <typename... Formal>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  void (*)(Formal...)) {
  *attributes = {};
  return cudaSuccess;
}
#define cudaLaunchKernelEx EmulatedLaunchKernelEx
template <typename... Formal, typename... Actual>
cudaError_t EmulatedLaunchKernelEx(const cudaLaunchConfig_t* c,
                                   void (*kernel)(Formal...),
                                   const Actual&... arguments) {
  ::emulation::Launch(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream,
                      kernel, arguments...);
  return cudaSuccess;
}

// --- lanes ------------------------------------------------------------------

namespace emulation {
template <typename T, typename F>
T OfLanes(unsigned mask, T own, const F& f) {
  T all[32];
  std::memcpy(all, Exchange(mask, &own, sizeof(T)), sizeof(all));
  return f(all);
}
inline unsigned Lane() { return current->linear % 32; }
}  // namespace emulation

template <typename T>
T __shfl_sync(unsigned mask, T v, int from) {
  return ::emulation::OfLanes(mask, v,
                              [&](const T* all) { return all[from & 31]; });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int bits) {
  const unsigned lane = ::emulation::Lane() ^ static_cast<unsigned>(bits);
  return ::emulation::OfLanes(mask, v,
                              [&](const T* all) { return all[lane & 31]; });
}
inline unsigned __ballot_sync(unsigned mask, bool v) {
  return ::emulation::OfLanes<unsigned>(mask, v ? 1 : 0,
                                        [&](const unsigned* all) {
                                          unsigned word = 0;
                                          for (unsigned i = 0; i < 32; ++i) {
                                            if (mask >> i & 1 && all[i] != 0)
                                              word |= 1u << i;
                                          }
                                          return word;
                                        });
}
inline bool __any_sync(unsigned mask, bool v) {
  return __ballot_sync(mask, v) != 0;
}
inline bool __all_sync(unsigned mask, bool v) {
  return __ballot_sync(mask, v) == mask;
}
template <typename T>
T __reduce_max_sync(unsigned mask, T v) {
  return ::emulation::OfLanes(mask, v, [&](const T* all) {
    T most = v;
    for (unsigned i = 0; i < 32; ++i) {
      if (mask >> i & 1) most = std::max(most, all[i]);
    }
    return most;
  });
}
template <typename T>
T __reduce_add_sync(unsigned mask, T v) {
  return ::emulation::OfLanes(mask, v, [&](const T* all) {
    T sum = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if (mask >> i & 1) sum += all[i];
    }
    return sum;
  });
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  (void)__ballot_sync(mask, true);
}
inline void __syncthreads() {
  const dim3& size = ::emulation::current->block_size;
  ::emulation::Barrier(0, size.x * size.y * size.z);
}

// --- atomics ----------------------------------------------------------------

template <typename T>
T atomicMax(T* p, T v) {
  const T before = *p;
  *p = std::max(before, v);
  return before;
}
template <typename T>
T atomicOr(T* p, T v) {
  const T before = *p;
  *p = before | v;
  return before;
}
template <typename T>
T atomicExch(T* p, T v) {
  const T before = *p;
  *p = v;
  return before;
}
template <typename T, typename V>
T atomicAdd(T* p, V v) {
  const T before = *p;
  *p = before + static_cast<T>(v);
  return before;
}
inline uint32_t atomicInc(uint32_t* p, uint32_t most) {
  const uint32_t before = *p;
  *p = before < most ? before + 1 : 0;
  return before;
}

#endif  // QUANTD_TESTS_EMULATION_DEVICE_H_
