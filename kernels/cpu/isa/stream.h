// Memory traffic that the hardware does not find out by itself: fetches of what
// is read soon, and stores around the caches, for codes that are written once
// and too many to be found there by whoever reads them, so that no line is
// fetched only to be overwritten. Included only by what is compiled once for
// each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_STREAM_H_
#define QUANTD_KERNELS_CPU_ISA_STREAM_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Fetches the cache lines of kBytes from `from` on, where it may lie anywhere:
// rows of a large matrix outrun the hardware's own prefetch.
template <int64_t kBytes>
QUANTD_FN void Prefetch(const std::byte* from) {
  for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(from + at);
}

// Whether lines of codes, `pitch` bytes apart, may be stored around the caches
// in vectors of `width` bytes from each line's start on.
inline bool MayStream(const std::byte* data, int64_t pitch, int64_t lines,
                      int64_t width) {
  constexpr int64_t kLeast = int64_t{4} << 20;
  return pitch % width == 0 &&
         reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(width) == 0 &&
         lines * pitch >= kLeast;
}

// Stores a vector of 16, 32 or 64 bytes around the caches.
template <typename V>
QUANTD_FN void StreamVector(V v, std::byte* to) {
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to),
                        reinterpret_cast<__m512i>(v));
    return;
  }
#endif
#ifdef __AVX2__
  if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                        reinterpret_cast<__m256i>(v));
    return;
  }
#endif
  if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     reinterpret_cast<__m128i>(v));
  }
}
template <bool kStream, typename V>
QUANTD_FN void StoreVector(V v, std::byte* to) {
  if constexpr (kStream) {
    StreamVector(v, to);
  } else {
    __builtin_memcpy(to, &v, sizeof(v));
  }
}

// kBytes, a multiple of 64, from one cache line to another's start; both may
// lie anywhere without kStream.
template <bool kStream, int kBytes>
QUANTD_FN void StoreBytes(const std::byte* from, std::byte* to) {
  typedef uint8_t V __attribute__((vector_size(4 * QUANTD_LANES)));
  for (int i = 0; i < kBytes; i += static_cast<int>(sizeof(V))) {
    V v;
    __builtin_memcpy(&v, from + i, sizeof(v));
    StoreVector<kStream>(v, to + i);
  }
}

// Must be called after the last such store, before anyone is told that it is
// done.
QUANTD_FN void StreamFence() { _mm_sfence(); }

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_STREAM_H_
