// Columnwise FP8 codes: one scale for the tensor, MXFP8 and blocks of 128. A
// lane is a column; codes that are stored column by column are transposed as
// bytes. Leaf rule: see tiles.cc.
#include "kernels/cpu/fp8.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// A strip: the rows of one scale and so many columns. A row's codes of one
// strip fill one cache line.
constexpr int kStrip = 64;
constexpr int kTwins = kStrip / (2 * W);
constexpr int kMostRows = 128;

// Running maxima of the even and the odd columns of a twin: see Running.
template <DType D, bool kSpecial>
struct RunningColumns {
  static constexpr bool kHalves = Running<D, kSpecial>::kHalves;
  using Halves = typename Running<D, kSpecial>::Halves;
  U halves{};
  U all[2] = {};
  U numbers[2] = {};

  QUANTD_FN void Add(const Twin<D>& t) {
    if constexpr (kHalves) {
      const auto a = reinterpret_cast<Halves>(t.raw & 0x7FFF7FFFu);
      const auto b = reinterpret_cast<Halves>(halves);
      halves = reinterpret_cast<U>(a > b ? a : b);
      return;
    }
    const F v[2] = {t.even, t.odd};
    for (int i = 0; i < 2; ++i) {
      U max, clean;
      Maxima<L>(v + i, 1, &max, &clean);
      all[i] = L::Max(max, all[i]);
      if constexpr (kSpecial) numbers[i] = L::Max(clean, numbers[i]);
    }
  }
  QUANTD_FN U Max(int odd) const {
    if constexpr (!kHalves) return all[odd];
    return odd ? halves & 0xFFFF0000u : halves << 16;
  }
  QUANTD_FN U Clean(int odd) const {
    return kSpecial ? numbers[odd] : Max(odd);
  }
};

struct Strip {
  const std::byte* from;
  int64_t pitch;  // of its rows, in bytes
  int64_t row;
  int64_t col;
  int64_t rows;
  int64_t cols;  // of the matrix; there are zeros after them
};

struct ColumnJob {
  const EncodeParams& params;
  const CopyTask& copy;
  LineScale<L> scales;
  int block;  // rows of one scale
  cpu::Maxima* seen;
};

void StoreScales(const ColumnJob& job, const Strip& s,
                 const U (&stored)[2 * kTwins]) {
  const CopyTask& copy = job.copy;
  const int64_t block = s.row / job.block;
  for (int64_t c = 0; c < s.cols; ++c) {
    const int64_t line = s.col + c;
    const int64_t in_twin = c % (2 * W);
    const uint32_t value = stored[c / (2 * W) * 2 + in_twin % 2][in_twin / 2];
    const int64_t at = copy.swizzled
                           ? SwizzledIndex(line, block, copy.blocks)
                           : line * copy.scale_line + block * copy.scale_block;
    if (job.params.scaling == Scaling::kMx) {
      copy.scale[at] = static_cast<std::byte>(value);
    } else {
      __builtin_memcpy(copy.scale + 4 * at, &value, sizeof(value));
    }
  }
}

// Maxima, scales and the multipliers of even and odd columns. False where there
// is NaN or Inf and not kSpecial.
template <DType D, bool kSpecial>
QUANTD_FN bool Prepare(const ColumnJob& job, const Strip& s,
                       F (&m)[2 * kTwins]) {
  // The strip after the next one: the hardware does not see it coming.
  for (int64_t r = 0; r < s.rows; ++r) {
    __builtin_prefetch(s.from + r * s.pitch + 2 * kStrip * SizeOf(D));
    __builtin_prefetch(s.from + r * s.pitch + 2 * kStrip * SizeOf(D) + 64);
  }
  U stored[2 * kTwins];
  U seen{};
  for (int t = 0; t < kTwins; ++t) {
    RunningColumns<D, kSpecial> running;
    const std::byte* p = s.from + t * 2 * W * SizeOf(D);
    for (int64_t r = 0; r < s.rows; ++r) {
      running.Add(LoadTwin<D>(p + r * s.pitch));
    }
    for (int odd = 0; odd < 2; ++odd) {
      const U max = running.Max(odd);
      const U clean = running.Clean(odd);
      seen = L::Max(max, seen);
      if constexpr (kSpecial) {
        job.seen->nan |= L::Any(max > kInfBits);
        job.seen->inf |= L::Any(clean == kInfBits);
      }
      const BlockScale<L> scale =
          MakeBlockScale<L>(job.params, job.scales, max, clean);
      stored[2 * t + odd] = StoredScale<L>(job.params, scale.stored);
      m[2 * t + odd] = scale.m;
    }
  }
  if (!kSpecial && L::Any(seen >= kInfBits)) return false;
  if (job.params.scaling != Scaling::kTensor) StoreScales(job, s, stored);
  return true;
}

template <DType D, int kMantissa, bool kSpecial, bool kStream>
QUANTD_FN void Encode(const Strip& s, const F (&m)[2 * kTwins], std::byte* to,
                      int64_t pitch) {
  constexpr int kEach = 16 / W;  // twins of one store
  for (int64_t r = 0; r < s.rows; ++r) {
    const std::byte* p = s.from + r * s.pitch;
    for (int c = 0; c < kStrip / kFp8Step; ++c) {
      U codes[kEach];
      for (int i = 0; i < kEach; ++i) {
        const int t = c * kEach + i;
        codes[i] = CodesOf<D, kMantissa, kSpecial>(
            LoadTwin<D>(p + t * 2 * W * SizeOf(D)), m[2 * t], m[2 * t + 1]);
      }
      StoreThirtyTwo<kStream>(codes, to + r * pitch + c * kFp8Step);
    }
  }
}

template <DType D, int kMantissa>
__attribute__((noinline)) void EncodeSpecial(const ColumnJob& job,
                                             const Strip& s, std::byte* to,
                                             int64_t pitch) {
  F m[2 * kTwins];
  Prepare<D, true>(job, s, m);
  Encode<D, kMantissa, true, false>(s, m, to, pitch);
}

// 16 x 16 bytes, rows `pitch` apart, to columns `out_pitch` apart.
QUANTD_FN void TransposeBytes(const std::byte* from, int64_t pitch,
                              std::byte* to, int64_t out_pitch) {
  __m128i a[16];
  __m128i b[16];
  for (int i = 0; i < 16; ++i) {
    __builtin_memcpy(&a[i], from + i * pitch, sizeof(a[i]));
  }
  // Four times: interleave row i with row i + 8.
  QUANTD_UNROLL
  for (int round = 0; round < 4; ++round) {
    __m128i* in = round % 2 ? b : a;
    __m128i* out = round % 2 ? a : b;
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) {
      out[2 * i] = _mm_unpacklo_epi8(in[i], in[i + 8]);
      out[2 * i + 1] = _mm_unpackhi_epi8(in[i], in[i + 8]);
    }
  }
  for (int i = 0; i < 16; ++i) {
    __builtin_memcpy(to + i * out_pitch, &a[i], sizeof(a[i]));
  }
}

// Codes of a strip, row by row in `codes`, to where columns are stored.
void StoreColumns(const CopyTask& copy, const Strip& s,
                  const std::byte (&codes)[kMostRows * kStrip]) {
  for (int64_t c = 0; c < s.cols; c += 16) {
    std::byte* to = copy.data + (s.col + c) * copy.data_line + s.row;
    for (int64_t r = 0; r < s.rows; r += 16) {
      const std::byte* from = codes + r * kStrip + c;
      if (r + 16 <= s.rows && c + 16 <= s.cols) {
        TransposeBytes(from, kStrip, to + r, copy.data_line);
        continue;
      }
      std::byte block[16 * 16];
      TransposeBytes(from, kStrip, block, 16);
      const int64_t lines = Least(16, s.cols - c);
      for (int64_t i = 0; i < lines; ++i) {
        __builtin_memcpy(to + i * copy.data_line + r, block + i * 16,
                         Least(16, s.rows - r));
      }
    }
  }
}

template <DType D, int kMantissa, bool kStream>
void EncodeStrip(const ColumnJob& job, Strip s) {
  const CopyTask& copy = job.copy;
  alignas(64) std::byte values[kMostRows * kStrip * SizeOf(D)];
  alignas(64) std::byte codes[kMostRows * kStrip];
  if (s.cols < kStrip) {  // with zeros after it
    constexpr int64_t kPitch = kStrip * SizeOf(D);
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t n = s.cols * SizeOf(D);
      __builtin_memcpy(values + r * kPitch, s.from + r * s.pitch, n);
      __builtin_memset(values + r * kPitch + n, 0, kPitch - n);
    }
    s.from = values;
    s.pitch = kPitch;
  }
  F m[2 * kTwins];
  const bool ordinary = Prepare<D, false>(job, s, m);
  const bool by_rows = copy.data_position != 1;
  std::byte* to = codes;
  int64_t pitch = kStrip;
  if (by_rows && s.cols == kStrip) {
    to = copy.data + s.row * copy.data_position + s.col;
    pitch = copy.data_position;
  }
  if (!ordinary) {
    EncodeSpecial<D, kMantissa>(job, s, to, pitch);
  } else if (to != codes) {
    Encode<D, kMantissa, false, kStream>(s, m, to, pitch);
  } else {
    Encode<D, kMantissa, false, false>(s, m, to, pitch);
  }
  if (!by_rows) {
    StoreColumns(copy, s, codes);
  } else if (to == codes) {
    for (int64_t r = 0; r < s.rows; ++r) {
      __builtin_memcpy(copy.data + (s.row + r) * copy.data_position + s.col,
                       codes + r * kStrip, s.cols);
    }
  }
}

}  // namespace

void QuantizeFp8Columns(const EncodeParams& e, const GroupTask& group,
                        int64_t first, int64_t last, cpu::Maxima* seen) {
  const CopyTask& copy = group.columnwise;
  const float scale = copy.tensor_scale ? *copy.tensor_scale : 1.0f;
  const int block = e.block > 0 ? e.block : kMostRows;
  const ColumnJob job = {e, copy, MakeLineScale<L>(e, F{}, L::Broadcast(scale)),
                         block, seen};
  const bool stream =
      copy.data_position != 1 &&
      MayStream(copy.data, copy.data_position, copy.positions, kFp8Step);
  ForDType(e.input, [&]<DType D>() {
    const auto run = [&]<int kMantissa, bool kStream>() {
      const int64_t pitch = e.cols * SizeOf(D);
      for (int64_t row = first; row < last; row += block) {
        for (int64_t col = 0; col < e.cols; col += kStrip) {
          EncodeStrip<D, kMantissa, kStream>(
              job, {group.x + row * pitch + col * SizeOf(D), pitch, row, col,
                    Least(block, last - row), Least(kStrip, e.cols - col)});
        }
      }
    };
    const bool e4m3 = e.element == DType::kE4M3;
    if (stream) {
      e4m3 ? run.template operator()<3, true>()
           : run.template operator()<2, true>();
      StreamFence();
    } else {
      e4m3 ? run.template operator()<3, false>()
           : run.template operator()<2, false>();
    }
  });
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
