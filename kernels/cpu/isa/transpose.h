// Moves data between memory and lanes. Transposes W blocks of 16 elements in
// registers into the order "element i of every block" and back, for every
// element type. Also has prefetches, and stores that bypass the caches: large
// outputs would not stay cached for their reader, and such stores do not fetch
// a line only to overwrite it. Included only by sources that are compiled once
// for each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_TRANSPOSE_H_
#define QUANTD_KERNELS_CPU_ISA_TRANSPOSE_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"
#include "kernels/cpu/isa/lane.h"
#include "quantd/format.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Prefetches the cache lines of kBytes bytes from `from` on, which need not be
// aligned. The hardware's prefetch cannot keep up with rows of a large matrix.
template <int64_t kBytes>
QUANTD_FN void Prefetch(const std::byte* from) {
  for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(from + at);
}

// Whether lines of codes that are `pitch` bytes apart may be stored past the
// caches, in vectors of `width` bytes from each line's start on.
inline bool MayStream(const std::byte* data, int64_t pitch, int64_t lines,
                      int64_t width) {
  constexpr int64_t kLeast = int64_t{4} << 20;
  return pitch % width == 0 &&
         reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(width) == 0 &&
         lines * pitch >= kLeast;
}

// Stores a vector of 16, 32 or 64 bytes, bypassing the caches.
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

// Copies kBytes bytes, a multiple of 64. With kStream both addresses must be
// aligned to cache lines.
template <bool kStream, int kBytes>
QUANTD_FN void StoreBytes(const std::byte* from, std::byte* to) {
  typedef uint8_t V __attribute__((vector_size(4 * QUANTD_LANES)));
  for (int i = 0; i < kBytes; i += static_cast<int>(sizeof(V))) {
    V v;
    __builtin_memcpy(&v, from + i, sizeof(v));
    StoreVector<kStream>(v, to + i);
  }
}

// Must be called after the last store that bypasses the caches, before another
// thread is told that the data is written.
QUANTD_FN void StreamFence() { _mm_sfence(); }

// Shuffles two vectors by an index rule, `Rule::At(i)` in [0, 2W).
template <typename Rule, typename V, size_t... I>
QUANTD_FN V ShuffleBy(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, Rule::At(I)...);
}
template <typename Rule, int W>
QUANTD_FN U32<W> Shuffle(U32<W> a, U32<W> b) {
  return ShuffleBy<Rule>(a, b, std::make_index_sequence<W>());
}

// Interleaves within each group of four lanes: the low or high halves of a
// and b, in units of `Unit` lanes.
template <int W, int Unit, bool High>
struct Unpack {
  static constexpr int At(int i) {
    const int group = i / 4 * 4;
    const int pair = i % 4 / Unit;  // unit within the group of the result
    const int from = pair / 2 + (High ? 2 / Unit : 0);
    return group + from * Unit + i % Unit + (pair % 2 ? W : 0);
  }
};

// Transposes 4 x 4 elements of 32 bits in each group of four lanes.
template <int W>
QUANTD_FN void Transpose4(U32<W> (&r)[4]) {
  const U32<W> t0 = Shuffle<Unpack<W, 1, false>, W>(r[0], r[1]);
  const U32<W> t1 = Shuffle<Unpack<W, 1, false>, W>(r[2], r[3]);
  const U32<W> t2 = Shuffle<Unpack<W, 1, true>, W>(r[0], r[1]);
  const U32<W> t3 = Shuffle<Unpack<W, 1, true>, W>(r[2], r[3]);
  r[0] = Shuffle<Unpack<W, 2, false>, W>(t0, t1);
  r[1] = Shuffle<Unpack<W, 2, true>, W>(t0, t1);
  r[2] = Shuffle<Unpack<W, 2, false>, W>(t2, t3);
  r[3] = Shuffle<Unpack<W, 2, true>, W>(t2, t3);
}

typedef uint32_t Quad __attribute__((vector_size(16)));

// Loads four lanes from each of W / 4 rows, `stride` bytes apart.
template <int W>
QUANTD_FN U32<W> LoadQuads(const std::byte* p, size_t stride) {
  Quad q[W / 4];
  for (int i = 0; i < W / 4; ++i) {
    __builtin_memcpy(&q[i], p + i * stride, sizeof(Quad));
  }
  if constexpr (W == 4) {
    return q[0];
  } else if constexpr (W == 8) {
    return __builtin_shufflevector(q[0], q[1], 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    const U32<8> a =
        __builtin_shufflevector(q[0], q[1], 0, 1, 2, 3, 4, 5, 6, 7);
    const U32<8> b =
        __builtin_shufflevector(q[2], q[3], 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                   12, 13, 14, 15);
  }
}

template <int W>
QUANTD_FN void StoreQuads(U32<W> v, std::byte* p, size_t stride) {
  Quad q[W / 4];
  __builtin_memcpy(q, &v, sizeof(v));
  for (int i = 0; i < W / 4; ++i) {
    __builtin_memcpy(p + i * stride, &q[i], sizeof(Quad));
  }
}

// Loads words 4c .. 4c+3 of W consecutive rows of `stride` bytes, transposed:
// lane r of out[i] is word 4c + i of row r.
template <int W>
QUANTD_FN void LoadWords(const std::byte* rows, size_t stride, int c,
                         U32<W> (&out)[4]) {
  for (int r = 0; r < 4; ++r) {
    out[r] = LoadQuads<W>(rows + r * stride + 16 * c, 4 * stride);
  }
  Transpose4<W>(out);
}
template <int W>
QUANTD_FN void StoreWords(U32<W> (&words)[4], std::byte* rows, size_t stride,
                          int c) {
  Transpose4<W>(words);
  for (int r = 0; r < 4; ++r) {
    StoreQuads<W>(words[r], rows + r * stride + 16 * c, 4 * stride);
  }
}

// The fp32 values of 16-bit codes of type D in the low half of each lane.
template <typename L, DType D>
QUANTD_FN typename L::F Decode16(typename L::U code) {
  if constexpr (D == DType::kBF16) {
    return DecodeBf16<L>(code);
  } else {
    return DecodeF16<L>(code);
  }
}
template <typename L, DType D>
QUANTD_FN typename L::U Encode16(typename L::F x) {
  if constexpr (D == DType::kBF16) {
    return EncodeBf16<L>(x);
  } else {
    return EncodeF16<L>(x);
  }
}
// Makes every NaN the canonical one, as stored fp32 must be.
template <typename L>
QUANTD_FN typename L::U Encode32(typename L::F x) {
  const typename L::U nan = typename L::U{} + kNanBits;
  return IsNan<L>(x) ? nan : L::Bits(x);
}

// Loads W blocks of 16 elements that are contiguous in memory. v[i] is element
// i of each block.
template <DType D, int W>
QUANTD_FN void LoadBlocks(const std::byte* p, typename Vec<W>::F (&v)[16]) {
  using L = Vec<W>;
  constexpr size_t kStride = 16 * SizeOf(D);
  for (int c = 0; c < static_cast<int>(kStride / 16); ++c) {
    U32<W> words[4];
    LoadWords<W>(p, kStride, c, words);
    for (int i = 0; i < 4; ++i) {
      if constexpr (D == DType::kF32) {
        v[4 * c + i] = L::Float(words[i]);
      } else {
        // Decoding bf16 shifts the upper half out.
        v[8 * c + 2 * i] =
            Decode16<L, D>(D == DType::kBF16 ? words[i] : words[i] & 0xFFFFu);
        v[8 * c + 2 * i + 1] = Decode16<L, D>(words[i] >> 16);
      }
    }
  }
}

template <DType D, int W>
QUANTD_FN void StoreBlocks(typename Vec<W>::F (&v)[16], std::byte* p) {
  using L = Vec<W>;
  constexpr size_t kStride = 16 * SizeOf(D);
  for (int c = 0; c < static_cast<int>(kStride / 16); ++c) {
    U32<W> words[4];
    for (int i = 0; i < 4; ++i) {
      if constexpr (D == DType::kF32) {
        words[i] = Encode32<L>(v[4 * c + i]);
      } else {
        words[i] = Encode16<L, D>(v[8 * c + 2 * i]) |
                   Encode16<L, D>(v[8 * c + 2 * i + 1]) << 16;
      }
    }
    StoreWords<W>(words, p, kStride, c);
  }
}

// The even words, and the odd words, of a and b.
template <int W, size_t... I>
QUANTD_FN void SplitPairsBy(U32<W> a, U32<W> b, U32<W>* even, U32<W>* odd,
                            std::index_sequence<I...>) {
  *even = __builtin_shufflevector(a, b, (2 * I)...);
  *odd = __builtin_shufflevector(a, b, (2 * I + 1)...);
}
template <int W>
QUANTD_FN void SplitPairs(U32<W> a, U32<W> b, U32<W>* even, U32<W>* odd) {
  SplitPairsBy<W>(a, b, even, odd, std::make_index_sequence<W>());
}
// Loads the words 2i and 2i + 1 at `p` into lane i of `even` and `odd`.
template <int W>
QUANTD_FN void LoadPairs(const std::byte* p, U32<W>* even, U32<W>* odd) {
  U32<W> a, b;
  __builtin_memcpy(&a, p, sizeof(a));
  __builtin_memcpy(&b, p + sizeof(a), sizeof(b));
  SplitPairs<W>(a, b, even, odd);
}
template <int W, bool kStream, size_t... I>
QUANTD_FN void StorePairsBy(U32<W> even, U32<W> odd, std::byte* p,
                            std::index_sequence<I...>) {
  const U32<W> a = __builtin_shufflevector(even, odd, (I / 2 + I % 2 * W)...);
  const U32<W> b =
      __builtin_shufflevector(even, odd, (W / 2 + I / 2 + I % 2 * W)...);
  StoreVector<kStream>(a, p);
  StoreVector<kStream>(b, p + sizeof(a));
}
// Stores two vectors, interleaved as LoadPairs reads them. kStream: see
// StoreVector.
template <int W, bool kStream = false>
QUANTD_FN void StorePairs(U32<W> even, U32<W> odd, std::byte* p) {
  StorePairsBy<W, kStream>(even, odd, p, std::make_index_sequence<W>());
}

// The first bytes of W words, then their second bytes, and so on.
struct BytesOfQuad {
  static constexpr int At(int i) {
    return i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
  }
};
template <int W>
struct WordsOfQuads {
  static constexpr int At(int i) { return i % (W / 4) * 4 + i / (W / 4); }
};
template <int W>
QUANTD_FN U32<W> SplitBytes(U32<W> words) {
  const auto bytes = reinterpret_cast<typename Vec<W>::Bytes>(words);
  const auto quads =
      ShuffleBy<BytesOfQuad>(bytes, bytes, std::make_index_sequence<4 * W>());
  return Shuffle<WordsOfQuads<W>, W>(reinterpret_cast<U32<W>>(quads), U32<W>{});
}

// Loads W consecutive elements, one into each lane.
template <DType D, int W>
QUANTD_FN typename Vec<W>::F LoadLanes(const std::byte* p) {
  using L = Vec<W>;
  if constexpr (D == DType::kF32) {
    typename L::F f;
    __builtin_memcpy(&f, p, sizeof(f));
    return f;
  } else {
    typename L::U16 codes;
    __builtin_memcpy(&codes, p, sizeof(codes));
    if constexpr (D == DType::kF16 && L::kConvertsHalves) {
      return L::DecodeHalves(codes);
    }
    return Decode16<L, D>(L::WidenHalves(codes));
  }
}
template <DType D, int W>
QUANTD_FN void StoreLanes(typename Vec<W>::F f, std::byte* p) {
  using L = Vec<W>;
  if constexpr (D == DType::kF32) {
    const typename L::U u = Encode32<L>(f);
    __builtin_memcpy(p, &u, sizeof(u));
  } else {
    const typename L::U16 codes = L::LowHalves(Encode16<L, D>(f));
    __builtin_memcpy(p, &codes, sizeof(codes));
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_TRANSPOSE_H_
