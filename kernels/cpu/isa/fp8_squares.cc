// FP8 codes with one scale per square of 128 x 128, for one copy or both at
// once. The leaf rule of tiles.cc applies.
#include "kernels/cpu/isa/fp8_columns.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

constexpr int kPanels = static_cast<int>(kTile) / kPanel;

struct SquareJob {
  const EncodeParams& params;
  const GroupTask& group;
  // Arguments of EmitPanel.
  const CopyTask& copy;
  const CopyTask* rows;
  LineScale<L> scales;
  cpu::Maxima* seen;
};

// Copies the largest lane to every lane.
QUANTD_FN U Spread(U u) {
  uint32_t max = 0;
  for (int i = 0; i < W; ++i) max = u[i] > max ? u[i] : max;
  return U{} + max;
}

// A square's values, packed panel by panel, because rows that are a large power
// of two apart share cache sets.
template <DType D>
struct Square {
  alignas(64) std::byte v[kPanels][kMostRows * kPanel * SizeOf(D)];
};

template <DType D, bool kSpecial>
QUANTD_FN void MaximaOf(const Square<D>& square, const Panel* parts,
                        int64_t panels, U* max, U* clean) {
  Running<D, kSpecial> running[kTwins];
  for (int64_t s = 0; s < panels; ++s) {
    for (int64_t r = 0; r < parts[s].taken; ++r) {
      QUANTD_UNROLL
      for (int t = 0; t < kTwins; ++t) {
        running[t].Add(
            LoadTwin<D>(square.v[s] + (r * kPanel + t * 2 * W) * SizeOf(D)));
      }
    }
  }
  U all{};
  U numbers{};
  for (const auto& each : running) {
    all = L::Max(each.Max(), all);
    numbers = L::Max(each.Clean(), numbers);
  }
  *max = Spread(all);
  *clean = Spread(numbers);
}

// Finds the maxima of a square that holds NaN or Inf.
template <DType D>
__attribute__((noinline)) void SpecialMaxima(const SquareJob& job,
                                             const Square<D>& square,
                                             const Panel* parts, int64_t panels,
                                             U* max, U* clean) {
  MaximaOf<D, true>(square, parts, panels, max, clean);
  job.seen->nan |= L::Any(*max > kInfBits);
  job.seen->inf |= L::Any(*clean == kInfBits);
}

void StoreScale(const CopyTask& copy, int64_t line, int64_t position,
                uint32_t value) {
  if (copy.data == nullptr) return;
  const int64_t at =
      line / kTile * copy.scale_line + position / kTile * copy.scale_block;
  __builtin_memcpy(copy.scale + 4 * at, &value, sizeof(value));
}

template <DType D, int kMantissa, bool kStream, bool kStreamColumns, bool kRows>
void EncodeSquare(const SquareJob& job, int64_t row, int64_t col, int64_t rows,
                  int64_t cols) {
  constexpr int64_t kPitch = kPanel * SizeOf(D);
  const int64_t pitch = job.params.cols * static_cast<int64_t>(SizeOf(D));
  const int64_t panels = (cols + kPanel - 1) / kPanel;
  Square<D> square;
  Panel parts[kPanels] = {};
  for (int64_t s = 0; s < panels; ++s) {
    const int64_t at = col + s * kPanel;
    const std::byte* from = job.group.x + row * pitch + at * SizeOf(D);
    parts[s] = {from, pitch, row, at, rows, Least(kPanel, col + cols - at)};
    if (parts[s].cols < kPanel) {
      PackPart<D>(&parts[s], square.v[s]);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      PrefetchPanel<D>(from + r * pitch);
      __builtin_memcpy(square.v[s] + r * kPitch, from + r * pitch, kPitch);
    }
  }
  U max, clean;
  MaximaOf<D, false>(square, parts, panels, &max, &clean);
  const bool special = L::Any(max >= kInfBits);
  if (special) SpecialMaxima<D>(job, square, parts, panels, &max, &clean);
  const BlockScale<L> scale =
      MakeBlockScale<L>(job.params, job.scales, max, clean);
  const uint32_t stored = StoredScale<L>(job.params, scale.stored)[0];
  StoreScale(job.group.rowwise, row, col, stored);
  StoreScale(job.group.columnwise, col, row, stored);
  F m[2 * kTwins];
  for (F& each : m) each = scale.m;
  for (int64_t s = 0; s < panels; ++s) {
    const std::byte* from = square.v[s];
    const auto encode = [&](const Codes& out) {
      if (special) {
        Encode<D, kMantissa, true, false, kRows, false>(from, kPitch,
                                                        parts[s].taken, m, out);
      } else if (parts[s].cols == kPanel) {
        Encode<D, kMantissa, false, kStream, kRows, false>(from, kPitch, rows,
                                                           m, out);
      } else {
        Encode<D, kMantissa, false, false, kRows, false>(
            from, kPitch, parts[s].taken, m, out);
      }
    };
    EmitPanel<kStreamColumns, kRows>(job.copy, job.rows, parts[s], encode);
  }
}

}  // namespace

void QuantizeFp8Squares(const EncodeParams& e, const GroupTask& group,
                        int64_t first, int64_t last, cpu::Maxima* seen) {
  const bool columns = group.columnwise.data != nullptr;
  const bool both = columns && group.rowwise.data != nullptr;
  CopyTask copy = columns ? group.columnwise : group.rowwise;
  if (!columns) copy.data_position = copy.data_line;
  const CopyTask* rows = both ? &group.rowwise : nullptr;
  const SquareJob job = {
      e, group, copy, rows, MakeLineScale<L>(e, F{}, L::Broadcast(1.0f)), seen};
  ForDType(e.input, [&]<DType D>() {
    ForStreams(
        e.element, StreamsOf(copy, rows), both,
        [&]<int kMantissa, bool kStream, bool kStreamColumns, bool kRows>() {
          for (int64_t row = first; row < last; row += kTile) {
            for (int64_t col = 0; col < e.cols; col += kTile) {
              EncodeSquare<D, kMantissa, kStream, kStreamColumns, kRows>(
                  job, row, col, Least(kTile, last - row),
                  Least(kTile, e.cols - col));
            }
          }
        });
  });
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
