// Columnwise FP8 codes for one scale per tensor, MXFP8 and blocks of 128. Each
// lane holds a column. Codes that are stored column by column are transposed as
// bytes. If the rowwise copy has the same codes, it is written, too. The leaf
// rule of tiles.cc applies.
#include "kernels/cpu/isa/fp8_columns.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

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
      FindMaxima<L>(v + i, 1, &max, &clean);
      all[i] = L::Max(max, all[i]);
      if constexpr (kSpecial) numbers[i] = L::Max(clean, numbers[i]);
    }
  }
  QUANTD_FN U Max(int odd) const {
    if constexpr (!kHalves) {
      return all[odd];
    } else {
      return L::Bits(Decode16<L, D>(odd ? halves >> 16 : halves & 0xFFFFu));
    }
  }
  QUANTD_FN U Clean(int odd) const {
    return kSpecial ? numbers[odd] : Max(odd);
  }
};

struct ColumnJob {
  const EncodeParams& params;
  const CopyTask& copy;
  const CopyTask* rows;  // nullptr: not written here
  LineScale<L> scales;
  int block;  // rows that share a scale
  cpu::Maxima* seen;
};

void StoreScales(const ColumnJob& job, const Panel& s,
                 const U (&stored)[2 * kTwins]) {
  const CopyTask& copy = job.copy;
  const int64_t block = s.row / job.block;
  for (int64_t c = 0; c < s.cols; ++c) {
    const int64_t line = s.col + c;
    const int64_t in_twin = c % (2 * W);
    const uint32_t value = stored[c / (2 * W) * 2 + in_twin % 2][in_twin / 2];
    const int64_t at = ScaleIndex(copy, line, block);
    if (job.params.scaling == Scaling::kMx) {
      copy.scale[at] = static_cast<std::byte>(value);
    } else {
      __builtin_memcpy(copy.scale + 4 * at, &value, sizeof(value));
    }
  }
}

// For a panel whose rows hold several rows of the matrix. Sets the maximum of
// each column to the largest of its partial maxima.
__attribute__((noinline)) void JoinMaxima(int64_t width, U (&max)[2 * kTwins]) {
  const auto of = [&](int64_t c) -> uint32_t& {
    const int64_t in_twin = c % (2 * W);
    return reinterpret_cast<uint32_t*>(
        max)[(c / (2 * W) * 2 + in_twin % 2) * W + in_twin / 2];
  };
  for (int64_t c = 0; c < width; ++c) {
    uint32_t all = 0;
    for (int64_t i = c; i < kPanel; i += width) all = of(i) > all ? of(i) : all;
    for (int64_t i = c; i < kPanel; i += width) of(i) = all;
  }
}

// Finds maxima, scales and the multipliers of even and odd columns. Copies the
// values to `packed`, because rows that are a large power of two apart share
// cache sets. Returns false if the input holds NaN or Inf and kSpecial is
// false.
template <DType D, bool kSpecial>
QUANTD_FN bool Prepare(const ColumnJob& job, const Panel& s, std::byte* packed,
                       F (&m)[2 * kTwins]) {
  constexpr int64_t kBytes = kPanel * SizeOf(D);
  RunningColumns<D, kSpecial> running[kTwins];
  for (int64_t r = 0; r < s.taken; ++r) {
    const std::byte* p = s.from + r * s.pitch;
    if constexpr (!kSpecial) PrefetchPanel<D>(p);
    QUANTD_UNROLL
    for (int t = 0; t < kTwins; ++t) {
      running[t].Add(LoadTwin<D>(p + t * 2 * W * SizeOf(D)));
    }
    if (packed != nullptr) __builtin_memcpy(packed + r * kBytes, p, kBytes);
  }
  U maxima[2 * kTwins];
  U numbers[2 * kTwins];
  for (int i = 0; i < 2 * kTwins; ++i) maxima[i] = running[i / 2].Max(i % 2);
  if (s.width < kPanel) JoinMaxima(s.width, maxima);
  for (int i = 0; i < 2 * kTwins; ++i) {
    numbers[i] = kSpecial ? running[i / 2].Clean(i % 2) : maxima[i];
  }
  if (kSpecial && s.width < kPanel) JoinMaxima(s.width, numbers);
  U stored[2 * kTwins];
  U seen{};
  for (int t = 0; t < kTwins; ++t) {
    for (int odd = 0; odd < 2; ++odd) {
      const U max = maxima[2 * t + odd];
      const U clean = numbers[2 * t + odd];
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

template <DType D, int kMantissa, bool kRows>
__attribute__((noinline)) void EncodeSpecial(const ColumnJob& job,
                                             const Panel& s, const Codes& out) {
  F m[2 * kTwins];
  Prepare<D, true>(job, s, nullptr, m);
  Encode<D, kMantissa, true, false, kRows, false>(s.from, s.pitch, s.taken, m,
                                                  out);
}

// kStream: see Encode; kStreamColumns: for codes stored column by column.
template <DType D, int kMantissa, bool kStream, bool kStreamColumns, bool kRows>
void EncodePanel(const ColumnJob& job, Panel s) {
  constexpr int64_t kPitch = kPanel * SizeOf(D);
  alignas(64) std::byte values[kMostRows * kPanel * SizeOf(D)];
  const bool whole = s.cols == kPanel;
  if (!whole) PackPart<D>(&s, values);
  EmitPanel<kStreamColumns, kRows>(
      job.copy, job.rows, s, [&](const Codes& out) {
        F m[2 * kTwins];
        bool ordinary;
        if (job.params.scaling == Scaling::kTensor) {
          for (F& each : m) each = job.scales.scale;
          ordinary = whole ? Encode<D, kMantissa, false, kStream, kRows, true>(
                                 s.from, s.pitch, s.taken, m, out)
                           : Encode<D, kMantissa, false, false, kRows, true>(
                                 s.from, s.pitch, s.taken, m, out);
        } else {
          ordinary = Prepare<D, false>(job, s, whole ? values : nullptr, m);
          if (ordinary && whole) {
            Encode<D, kMantissa, false, kStream, kRows, false>(values, kPitch,
                                                               s.taken, m, out);
          } else if (ordinary) {
            Encode<D, kMantissa, false, false, kRows, false>(values, kPitch,
                                                             s.taken, m, out);
          }
        }
        if (!ordinary) EncodeSpecial<D, kMantissa, kRows>(job, s, out);
      });
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
  const Streams streams = StreamsOf(copy, rows);
  ForDType(e.input, [&]<DType D>() {
    const int64_t pitch = e.cols * SizeOf(D);
    ForStreams(
        e.element, streams, rows_too,
        [&]<int kMantissa, bool kStream, bool kStreamColumns, bool kRows>() {
          for (int64_t row = first; row < last; row += block) {
            for (int64_t col = 0; col < e.cols; col += kPanel) {
              EncodePanel<D, kMantissa, kStream, kStreamColumns, kRows>(
                  job,
                  {group.x + row * pitch + col * SizeOf(D), pitch, row, col,
                   Least(block, last - row), Least(kPanel, e.cols - col)});
            }
          }
        });
  });
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
