// The lane concept: the arithmetic of quantd is written once, over a lane type
// L, with a block of elements in each lane. A CUDA thread and plain C++ use
// Scalar; a CPU core uses the vector lanes of kernels/cpu/isa/lane.h, where
// operators and ?: act on every lane at once.
//
// A lane type has
//   F, U          one float / uint32_t for each lane
//   kWidth        the number of lanes
//   Float(U), Bits(F)      the same bits as the other type
//   Broadcast(float)       the float in every lane
//   Float32(uint32_t)      a single float with those bits
//   ToFloat(U)             the number, below 2^24, as a float
//   Min, Max      of two U below 2^31
//   Any(mask)     whether a comparison holds in some lane
//   Progression(uint64_t first, uint64_t step, U* low, U* high)  the halves of
//                 first, first + step .. in the lanes; for several lanes
//   MulHigh(U a, uint32_t b)  the high half of the product; for one lane
//   Wide          a 64-bit number for every second lane; for several lanes
//   MulLow(Wide a, uint32_t b)  the 64-bit products of the low halves
//   HideSource(Wide*)      keeps the compiler from using a scalar for it
//   Truncate(F), E2M1OfHalves(U)  see kernels/arith/e2m1.h; for several lanes
//   MulPlusZero(F x, F c)  fmaf(x, c, +0.0f): rounds once, and gives -0 only if
//                 a nonzero product rounds to zero
//   AddProduct, SubProduct(F a, F x, F c)  a + x * c and a - x * c for exact
//                 products, so that fused and unfused give the same result
//   PickBySign(U signs, F a, F b)  a if the highest bit is set, else b; for
//                 several lanes
//   JoinHighHalves(U a, U b)  a's high half as the low half, and b's high half
//   E2M1Magic(U)  see kernels/arith/e2m1.h
//   kConvertsHalves  whether DecodeHalves and EncodeHalves exist, which
//                 convert fp16 in hardware
//
// These headers must be compiled with float arithmetic exact as written: no
// contraction, no fast math, no flush to zero (CMake target quantd_arith).
#ifndef QUANTD_KERNELS_ARITH_LANES_H_
#define QUANTD_KERNELS_ARITH_LANES_H_

#include <cstdint>

#ifdef __CUDACC__
#define QUANTD_FN __host__ __device__ __forceinline__
// Marks functions that call functions of a kernel. Under nvcc they are compiled
// for the device only.
#define QUANTD_KERNEL_FN __device__ __forceinline__
#define QUANTD_RARE_FN __host__ __device__ __noinline__
#define QUANTD_UNROLL _Pragma("unroll")
#else
#define QUANTD_FN inline __attribute__((always_inline))
#define QUANTD_KERNEL_FN QUANTD_FN
#define QUANTD_RARE_FN QUANTD_FN
#define QUANTD_UNROLL _Pragma("GCC unroll 16")
#endif

// Each instruction set compiles these headers in a translation unit of its own
// with other flags; the namespace keeps the linker from merging them.
#ifndef QUANTD_ARITH
#define QUANTD_ARITH portable
#endif

namespace quantd {
inline namespace QUANTD_ARITH {

struct Scalar {
  using F = float;
  using U = uint32_t;
  static constexpr int kWidth = 1;
  static constexpr bool kConvertsHalves = false;

  static QUANTD_FN F Float(U u) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(u);
#else
    return __builtin_bit_cast(float, u);
#endif
  }
  static QUANTD_FN U Bits(F f) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(f);
#else
    return __builtin_bit_cast(uint32_t, f);
#endif
  }
  static QUANTD_FN F Broadcast(float f) { return f; }
  static QUANTD_FN float Float32(uint32_t u) { return Float(u); }
  static QUANTD_FN F ToFloat(U u) { return static_cast<float>(u); }
  static QUANTD_FN U MulHigh(U a, uint32_t b) {
    return static_cast<U>((uint64_t{a} * b) >> 32);
  }
  static QUANTD_FN U Min(U a, U b) { return a < b ? a : b; }
  static QUANTD_FN U Max(U a, U b) { return a > b ? a : b; }
  static QUANTD_FN bool Any(bool mask) { return mask; }
  static QUANTD_FN F MulPlusZero(F x, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(x, c, 0.0f);
#else
    return x == 0.0f ? 0.0f : x * c;
#endif
  }
  static QUANTD_FN F AddProduct(F a, F x, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(x, c, a);
#else
    return a + x * c;
#endif
  }
  static QUANTD_FN F SubProduct(F a, F x, float c) {
    return AddProduct(a, x, -c);
  }
  static QUANTD_FN U JoinHighHalves(U a, U b) {
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, 0x7632);
#else
    return (a >> 16) | (b & 0xFFFF0000u);
#endif
  }
  static QUANTD_FN U E2M1Magic(U one_or_more) {
    const U exponent = one_or_more & 0x7F800000u;
    return exponent + (exponent >> 22) + ((22u << 23) - 254u);
  }
};

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_LANES_H_
