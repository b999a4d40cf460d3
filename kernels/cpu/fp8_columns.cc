// Columnwise FP8 codes: one scale for the tensor, MXFP8 and blocks of 128. A
// lane is a column; codes that are stored column by column are transposed as
// bytes. Where the rowwise copy has the same codes it is made with them. Leaf
// rule: see tiles.cc.
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
  const CopyTask* rows;  // nullptr: not to be made here
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

// The strip after the next one: the hardware does not see it coming.
template <DType D>
QUANTD_FN void Prefetch(const std::byte* row) {
  constexpr int64_t kBytes = kStrip * SizeOf(D);
  for (int64_t at = 0; at < kBytes; at += 64) {
    __builtin_prefetch(row + 2 * kBytes + at);
  }
}

// Maxima, scales and the multipliers of even and odd columns; copies the values
// to `packed`, as rows that are a large power of two apart share cache sets.
// False where there is NaN or Inf and not kSpecial.
template <DType D, bool kSpecial>
QUANTD_FN bool Prepare(const ColumnJob& job, const Strip& s, std::byte* packed,
                       F (&m)[2 * kTwins]) {
  constexpr int64_t kBytes = kStrip * SizeOf(D);
  RunningColumns<D, kSpecial> running[kTwins];
  for (int64_t r = 0; r < s.rows; ++r) {
    const std::byte* p = s.from + r * s.pitch;
    if constexpr (!kSpecial) Prefetch<D>(p);
    QUANTD_UNROLL
    for (int t = 0; t < kTwins; ++t) {
      running[t].Add(LoadTwin<D>(p + t * 2 * W * SizeOf(D)));
    }
    if (packed != nullptr) __builtin_memcpy(packed + r * kBytes, p, kBytes);
  }
  U stored[2 * kTwins];
  U seen{};
  for (int t = 0; t < kTwins; ++t) {
    for (int odd = 0; odd < 2; ++odd) {
      const U max = running[t].Max(odd);
      const U clean = running[t].Clean(odd);
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

// Where a strip's codes go, row by row. `rows`: to the rowwise copy too.
struct Codes {
  std::byte* to;
  int64_t pitch;
  std::byte* rows = nullptr;
  int64_t rows_pitch = 0;
};

// kStream: of `rows` if they are wanted, else of `to`. Returns whether there is
// neither NaN nor Inf, if kWatch.
template <DType D, int kMantissa, bool kSpecial, bool kStream, bool kRows,
          bool kWatch>
QUANTD_FN bool Encode(const std::byte* from, int64_t from_pitch,
                      int64_t rows_of_it, const F (&m)[2 * kTwins],
                      const Codes& out) {
  constexpr int kEach = 16 / W;  // twins of one store
  Running<D, kSpecial> running;
  for (int64_t r = 0; r < rows_of_it; ++r) {
    const std::byte* p = from + r * from_pitch;
    if constexpr (kWatch) Prefetch<D>(p);
    QUANTD_UNROLL
    for (int c = 0; c < kStrip / kFp8Step; ++c) {
      U codes[kEach];
      for (int i = 0; i < kEach; ++i) {
        const int t = c * kEach + i;
        const Twin<D> twin = LoadTwin<D>(p + t * 2 * W * SizeOf(D));
        if constexpr (kWatch) running.Add(twin);
        codes[i] =
            CodesOf<D, kMantissa, kSpecial>(twin, m[2 * t], m[2 * t + 1]);
      }
      StoreThirtyTwo<kStream && !kRows>(codes,
                                        out.to + r * out.pitch + c * kFp8Step);
      if constexpr (kRows) {
        StoreThirtyTwo<kStream>(codes,
                                out.rows + r * out.rows_pitch + c * kFp8Step);
      }
    }
  }
  return !kWatch || !L::Any(running.Max() >= kInfBits);
}

template <DType D, int kMantissa, bool kRows>
__attribute__((noinline)) void EncodeSpecial(const ColumnJob& job,
                                             const Strip& s, const Codes& out) {
  F m[2 * kTwins];
  Prepare<D, true>(job, s, nullptr, m);
  Encode<D, kMantissa, true, false, kRows, false>(s.from, s.pitch, s.rows, m,
                                                  out);
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

// Codes of a strip, row by row in `codes`, to where columns are stored. A whole
// strip's column is two cache lines, each of which is written once.
template <bool kStream>
void StoreColumns(const CopyTask& copy, const Strip& s,
                  const std::byte (&codes)[kMostRows * kStrip]) {
  std::byte* data = copy.data + s.col * copy.data_line + s.row;
  alignas(64) std::byte columns[16][kMostRows];
  for (int64_t c = 0; c < s.cols; c += 16) {
    for (int64_t r = 0; r < s.rows; r += 16) {
      TransposeBytes(codes + r * kStrip + c, kStrip, columns[0] + r, kMostRows);
    }
    const int64_t lines = Least(16, s.cols - c);
    for (int64_t i = 0; i < lines; ++i) {
      std::byte* to = data + (c + i) * copy.data_line;
      if (s.rows == kMostRows) {
        StoreBytes<kStream, kMostRows>(columns[i], to);
      } else {
        __builtin_memcpy(to, columns[i], s.rows);
      }
    }
  }
}

// kStream: as Encode's; kStreamColumns: of columns.
template <DType D, int kMantissa, bool kStream, bool kStreamColumns, bool kRows>
void EncodeStrip(const ColumnJob& job, Strip s) {
  const CopyTask& copy = job.copy;
  constexpr int64_t kPitch = kStrip * SizeOf(D);
  alignas(64) std::byte values[kMostRows * kStrip * SizeOf(D)];
  alignas(64) std::byte codes[kMostRows * kStrip];
  alignas(64) std::byte row_codes[kRows ? kMostRows * kStrip : 1];
  const bool whole = s.cols == kStrip;
  std::byte* packed = values;
  if (!whole) {  // with zeros after it
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t n = s.cols * SizeOf(D);
      __builtin_memcpy(values + r * kPitch, s.from + r * s.pitch, n);
      __builtin_memset(values + r * kPitch + n, 0, kPitch - n);
    }
    s.from = values;
    s.pitch = kPitch;
    packed = nullptr;
  }
  // Straight to where they belong, or by way of the stack.
  const bool by_rows = copy.data_position != 1;
  Codes out = {codes, kStrip, row_codes, kStrip};
  if (whole && by_rows) {
    out.to = copy.data + s.row * copy.data_position + s.col;
    out.pitch = copy.data_position;
  }
  if (whole && kRows) {
    out.rows = job.rows->data + s.row * job.rows->data_line + s.col;
    out.rows_pitch = job.rows->data_line;
  }
  F m[2 * kTwins];
  bool ordinary;
  if (job.params.scaling == Scaling::kTensor) {
    for (F& each : m) each = job.scales.scale;
    ordinary = whole ? Encode<D, kMantissa, false, kStream, kRows, true>(
                           s.from, s.pitch, s.rows, m, out)
                     : false;
  } else {
    ordinary = Prepare<D, false>(job, s, packed, m);
    if (ordinary && whole) {
      Encode<D, kMantissa, false, kStream, kRows, false>(values, kPitch, s.rows,
                                                         m, out);
    } else if (ordinary) {
      Encode<D, kMantissa, false, false, kRows, false>(values, kPitch, s.rows,
                                                       m, out);
    }
  }
  if (!ordinary) EncodeSpecial<D, kMantissa, kRows>(job, s, out);
  if (!by_rows) StoreColumns<kStreamColumns>(copy, s, codes);
  if (whole) return;
  for (int64_t r = 0; by_rows && r < s.rows; ++r) {
    __builtin_memcpy(copy.data + (s.row + r) * copy.data_position + s.col,
                     codes + r * kStrip, s.cols);
  }
  for (int64_t r = 0; kRows && r < s.rows; ++r) {
    __builtin_memcpy(job.rows->data + (s.row + r) * job.rows->data_line + s.col,
                     row_codes + r * kStrip, s.cols);
  }
}

}  // namespace

bool SameFp8Codes(const EncodeParams& e, const CopyTask& a, const CopyTask& b) {
  return e.scaling == Scaling::kTensor &&
         Scalar::Bits(*a.tensor_scale) == Scalar::Bits(*b.tensor_scale);
}

void QuantizeFp8Columns(const EncodeParams& e, const GroupTask& group,
                        bool rows_too, int64_t first, int64_t last,
                        cpu::Maxima* seen) {
  const CopyTask& copy = group.columnwise;
  const CopyTask* rows = rows_too ? &group.rowwise : nullptr;
  const float scale = copy.tensor_scale ? *copy.tensor_scale : 1.0f;
  const int block = e.block > 0 ? e.block : kMostRows;
  const ColumnJob job = {e,     copy,
                         rows,  MakeLineScale<L>(e, F{}, L::Broadcast(scale)),
                         block, seen};
  const bool by_rows = copy.data_position != 1;
  const bool stream_columns =
      !by_rows && MayStream(copy.data, copy.data_line, copy.lines, 64);
  const bool stream =
      rows_too ? MayStream(rows->data, rows->data_line, rows->lines, kFp8Step)
               : by_rows && MayStream(copy.data, copy.data_position,
                                      copy.positions, kFp8Step);
  ForDType(e.input, [&]<DType D>() {
    const auto run =
        [&]<int kMantissa, bool kStream, bool kStreamColumns, bool kRows>() {
          const int64_t pitch = e.cols * SizeOf(D);
          for (int64_t row = first; row < last; row += block) {
            for (int64_t col = 0; col < e.cols; col += kStrip) {
              EncodeStrip<D, kMantissa, kStream, kStreamColumns, kRows>(
                  job,
                  {group.x + row * pitch + col * SizeOf(D), pitch, row, col,
                   Least(block, last - row), Least(kStrip, e.cols - col)});
            }
          }
        };
    const auto of = [&]<int kMantissa>() {
      if (rows_too) {
        stream&& stream_columns
            ? run.template operator()<kMantissa, true, true, true>()
            : run.template operator()<kMantissa, false, false, true>();
      } else if (stream_columns) {
        run.template operator()<kMantissa, false, true, false>();
      } else if (stream) {
        run.template operator()<kMantissa, true, false, false>();
      } else {
        run.template operator()<kMantissa, false, false, false>();
      }
    };
    e.element == DType::kE4M3 ? of.template operator()<3>()
                              : of.template operator()<2>();
  });
  if (stream || stream_columns) StreamFence();
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
