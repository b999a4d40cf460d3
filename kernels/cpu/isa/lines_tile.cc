// Loads tiles as fp32 and stores them, and computes their maxima, rotations and
// column sums. The leaf rule of tiles.cc applies.
#include "kernels/cpu/isa/lines.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// Up to W elements from `p`, with zeros in the other lanes.
template <DType D>
QUANTD_FN F LoadSome(const std::byte* p, int64_t count) {
  if (count >= W) return LoadLanes<D, W>(p);
  std::byte buffer[W * SizeOf(D)] = {};
  __builtin_memcpy(buffer, p, count * SizeOf(D));
  return LoadLanes<D, W>(buffer);
}
// Like LoadSome, but uses a single load of W elements if they end before `end`.
template <DType D>
QUANTD_FN F LoadBefore(const std::byte* end, const std::byte* p,
                       int64_t count) {
  if (count >= W || p + W * SizeOf(D) > end) return LoadSome<D>(p, count);
  const F v = LoadLanes<D, W>(p);
  U lanes;
  for (int i = 0; i < W; ++i) lanes[i] = i;
  const U wanted = reinterpret_cast<U>(lanes < static_cast<uint32_t>(count));
  return L::Float(L::Bits(v) & wanted);
}
template <DType D>
QUANTD_FN void StoreSome(F v, std::byte* p, int64_t count) {
  if (count >= W) return StoreLanes<D, W>(v, p);
  std::byte buffer[W * SizeOf(D)];
  StoreLanes<D, W>(v, buffer);
  __builtin_memcpy(p, buffer, count * SizeOf(D));
}

__attribute__((noinline)) void NoteLanes(F v, cpu::Maxima* seen) {
  const U m = L::Bits(v) & kAbsMask;
  for (int i = 0; i < W; ++i) {
    seen->nan |= m[i] > kInfBits;
    seen->inf |= m[i] == kInfBits;
  }
}

// Records NaN and Inf in a tile's row. Called only if the row has one.
__attribute__((noinline)) void NoteRow(const float* row, cpu::Maxima* seen) {
  for (int64_t c = 0; c < kTile; c += W) {
    F v;
    __builtin_memcpy(&v, row + c, sizeof(v));
    NoteLanes(v, seen);
  }
}

template <DType D>
void LoadTileOf(const cpu::Matrix& x, int64_t row, int64_t col, int64_t unit,
                Tile* tile, cpu::Maxima* seen) {
  const int64_t rows = Least(kTile, x.rows - row);
  const int64_t cols = Least(kTile, x.cols - col);
  // The columns of the tile to fill, and those that may still hold nonzero
  // values.
  const int64_t wide = (cols + W - 1) / W * W;
  const int64_t stale = wide > tile->wide ? wide : tile->wide;
  const std::byte* const end = x.data + x.rows * x.cols * SizeOf(D);
  // The next tile is to the right, or else the first of the tiles below.
  const bool beside = col + kTile < x.cols;
  const std::byte* const next =
      x.data +
      ((beside ? row : row + kTile) * x.cols + (beside ? col + kTile : 0)) *
          SizeOf(D);
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* from = x.data + ((row + r) * x.cols + col) * SizeOf(D);
    float* to = tile->at(r, 0);
    Prefetch<kTile * SizeOf(D)>(next + r * x.cols * SizeOf(D));
    if (cols == kTile) {
      U max{};
      QUANTD_UNROLL
      for (int64_t c = 0; c < kTile; c += W) {
        const F v = LoadLanes<D, W>(from + c * SizeOf(D));
        max = L::Max(MagnitudeOf<L>(v), max);
        __builtin_memcpy(to + c, &v, sizeof(v));
      }
      if (L::Any(max >= kInfBits)) NoteRow(to, seen);
      continue;
    }
    for (int64_t c = 0; c < stale; c += W) {
      F v{};
      if (c < cols) v = LoadBefore<D>(end, from + c * SizeOf(D), cols - c);
      if (L::Any((L::Bits(v) & kAbsMask) >= kInfBits)) NoteLanes(v, seen);
      __builtin_memcpy(to + c, &v, sizeof(v));
    }
  }
  // All tiles of a short group are short, so zeros below the rows stay in the
  // reused tile.
  const int64_t below = Least(tile->filled, (rows + unit - 1) / unit * unit);
  for (int64_t r = rows; r < below; ++r) {
    __builtin_memset(tile->at(r, 0), 0, kTile * sizeof(float));
  }
  tile->filled = rows;
  tile->wide = wide;
}

// Stores a row of a tile, unless it holds NaN, which must be made canonical.
template <DType D>
QUANTD_FN bool StoreNumbers(const float* row, std::byte* to) {
  U max{};
  QUANTD_UNROLL
  for (int64_t c = 0; c < kTile; c += W) {
    F v;
    __builtin_memcpy(&v, row + c, sizeof(v));
    max = L::Max(MagnitudeOf<L>(v), max);
    if constexpr (D == DType::kF32) {
      __builtin_memcpy(to + c * 4, &v, sizeof(v));
    } else if constexpr (D == DType::kF16) {
      StoreLanes<D, W>(v, to + c * 2);
    } else {
      const L::U16 codes = L::LowHalves(L::Bits(RoundToBf16<L>(v)) >> 16);
      __builtin_memcpy(to + c * 2, &codes, sizeof(codes));
    }
  }
  return !L::Any(max > kInfBits);
}

// A search for the maxima of a tile's lines in one direction, plain or rotated.
// They raise `*total` and, if it is set, each line's number in `lines`.
struct Direction {
  bool columnwise;
  const float* signs;
  int rotation;
  uint32_t* lines;  // for the whole matrix, or nullptr
  uint32_t* total;
  bool* nan;
};

void RaiseTo(uint32_t value, uint32_t* to) {
  uint32_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(to, &old, value, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

void AmaxOf(Tile& tile, const Direction& d, bool propagate, int64_t row,
            int64_t col, int64_t rows, int64_t cols) {
  const int64_t lines = d.columnwise ? cols : rows;
  const int64_t positions = d.columnwise ? rows : cols;
  const int n = d.signs ? d.rotation : 16;
  for (int64_t l = 0; l < lines; l += W) {
    U max{};
    U clean{};
    for (int64_t p = 0; p < positions; p += n) {
      F v[128];
      LoadSpan(tile, d.columnwise, l, p, n, v);
      if (d.signs) RotateSpan(v, n, d.rotation, d.signs);
      U a, b;
      FindMaxima<L>(v, n, &a, &b);
      max = L::Max(a, max);
      clean = L::Max(b, clean);
    }
    for (int i = 0; i < W && l + i < lines; ++i) {
      *d.nan |= max[i] > kInfBits;
      *d.total = clean[i] > *d.total ? clean[i] : *d.total;
      if (d.lines) {
        RaiseTo(propagate ? max[i] : clean[i],
                d.lines + (d.columnwise ? col : row) + l + i);
      }
    }
  }
}

}  // namespace

void LoadTile(const cpu::Matrix& x, int64_t row, int64_t col, int64_t unit,
              Tile* tile, cpu::Maxima* seen) {
  ForDType(x.dtype,
           [&]<DType D>() { LoadTileOf<D>(x, row, col, unit, tile, seen); });
}

void StoreTile(Tile& tile, int64_t rows, int64_t cols, DType dtype,
               int64_t stride, std::byte* out) {
  ForDType(dtype, [&]<DType D>() {
    for (int64_t r = 0; r < rows; ++r) {
      std::byte* to = out + r * stride * SizeOf(D);
      if (cols == kTile && StoreNumbers<D>(tile.at(r, 0), to)) continue;
      for (int64_t c = 0; c < cols; c += W) {
        F v;
        __builtin_memcpy(&v, tile.at(r, c), sizeof(v));
        StoreSome<D>(v, to + c * SizeOf(D), cols - c);
      }
    }
  });
}

void AmaxLines(const cpu::AmaxArgs& a, int64_t first, int64_t last,
               cpu::Maxima* out) {
  bool plain_nan = false;
  const Direction directions[] = {
      {false, nullptr, 0, a.row_lines, &out->plain, &plain_nan},
      {false, a.row_signs, a.rotation, a.row_rht_lines, &out->row_rht,
       &out->row_rht_nan},
      {true, nullptr, 0, a.col_lines, &out->plain, &plain_nan},
      {true, a.col_signs, a.rotation, a.col_rht_lines, &out->col_rht,
       &out->col_rht_nan},
  };
  const bool wanted[] = {true, a.row_signs != nullptr, a.col_lines != nullptr,
                         a.col_signs != nullptr};
  Tile tile;
  for (int64_t row = first; row < last; row += kTile) {
    for (int64_t col = 0; col < a.x.cols; col += kTile) {
      LoadTile(a.x, row, col, a.col_signs ? a.rotation : 16, &tile, out);
      for (int i = 0; i < 4; ++i) {
        if (!wanted[i]) continue;
        AmaxOf(tile, directions[i], a.propagate, row, col,
               Least(kTile, last - row), Least(kTile, a.x.cols - col));
      }
    }
  }
}

void RotateLines(const cpu::RotateArgs& a, int64_t first, int64_t last,
                 cpu::Maxima* seen) {
  Tile tile;
  for (int64_t row = first; row < last; row += kTile) {
    for (int64_t col = 0; col < a.x.cols; col += kTile) {
      const int64_t rows = Least(kTile, last - row);
      const int64_t cols = Least(kTile, a.x.cols - col);
      LoadTile(a.x, row, col, 16, &tile, seen);
      for (int64_t l = 0; l < rows; l += W) {
        for (int64_t p = 0; p < cols; p += a.dimension) {
          F v[128];
          LoadSpan(tile, false, l, p, a.dimension, v);
          a.inverse ? RotateInverseOf<L>(v, a.dimension, a.signs)
                    : RotateForwardOf<L>(v, a.dimension, a.signs);
          StoreSpan(v, false, l, p, a.dimension, &tile);
        }
      }
      StoreTile(tile, rows, cols, a.dtype, a.x.cols,
                a.out + (row * a.x.cols + col) * SizeOf(a.dtype));
    }
  }
}

void SumChunk(const cpu::Matrix& x, int64_t first, int64_t last, float* sums) {
  ForDType(x.dtype, [&]<DType D>() {
    // The number of columns whose sums stay in the cache while rows are added.
    constexpr int64_t kAtOnce = 1024;
    const std::byte* const end_of_x = x.data + x.rows * x.cols * SizeOf(D);
    if (x.cols < W) {
      F sum{};
      for (int64_t row = first; row < last; ++row) {
        sum = sum + LoadBefore<D>(end_of_x, x.data + row * x.cols * SizeOf(D),
                                  x.cols);
      }
      __builtin_memcpy(sums, &sum, x.cols * sizeof(float));
      return;
    }
    for (int64_t col = 0; col < x.cols; col += kAtOnce) {
      const int64_t end = Least(col + kAtOnce, x.cols);
      __builtin_memset(sums + col, 0, (end - col) * sizeof(float));
      for (int64_t row = first; row < last; ++row) {
        const std::byte* from = x.data + row * x.cols * SizeOf(D);
        for (int64_t c = col; c < end; c += W) {
          const F v = LoadSome<D>(from + c * SizeOf(D), end - c);
          const F sum = LoadSome<DType::kF32>(
                            reinterpret_cast<std::byte*>(sums + c), end - c) +
                        v;
          if (end - c >= W) {
            __builtin_memcpy(sums + c, &sum, sizeof(sum));
          } else {
            __builtin_memcpy(sums + c, &sum, (end - c) * sizeof(float));
          }
        }
      }
    }
  });
}

void SumChunks(const float* partial, int64_t chunks, int64_t cols, DType dtype,
               std::byte* out) {
  ForDType(dtype, [&]<DType D>() {
    for (int64_t c = 0; c < cols; c += W) {
      F total{};
      for (int64_t i = 0; i < chunks; ++i) {
        total = total +
                LoadSome<DType::kF32>(
                    reinterpret_cast<const std::byte*>(partial + i * cols + c),
                    cols - c);
      }
      StoreSome<D>(total, out + c * SizeOf(D), cols - c);
    }
  });
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
