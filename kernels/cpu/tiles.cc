// Compiled once for each instruction set, with QUANTD_ARITH, QUANTD_TILES and
// QUANTD_LANES naming the namespace, the table and the lanes.
//
// Leaf rule: only arithmetic headers and <cstdint> here, and everything inside
// a namespace of this instruction set. Anything shared, a standard template
// say, could be kept by the linker in its wide form for the whole program.
#include "kernels/cpu/tiles.h"

#include "kernels/block.h"
#include "kernels/cpu/lines.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vec.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using cpu::AmaxArgs;
using cpu::DequantizeArgs;
using cpu::kTileRows;
using cpu::Matrix;
using cpu::Maxima;
using cpu::Nvfp4Copy;
using cpu::QuantizeArgs;
using cpu::RotateArgs;

constexpr int W = QUANTD_LANES;
using L = Vec<W>;
using F = L::F;
using U = L::U;

// Columns of a tile: with kTileRows rows of them a tile stays in the L2 cache,
// and a column's codes of one tile fill one cache line.
constexpr int64_t kTileCols = 128;

constexpr size_t kAhead = 4096;  // bytes

int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// W lanes to one maximum.
uint32_t Reduce(U u) {
  uint32_t m = 0;
  for (int i = 0; i < W; ++i) m = u[i] > m ? u[i] : m;
  return m;
}

// Signs in every lane.
struct Signs {
  explicit Signs(const float* s) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < W; ++j) lanes[i][j] = s ? s[i] : 0.0f;
    }
  }
  F lanes[16];
};

// Notes NaN and Inf of raw values; only called where there is one.
__attribute__((noinline)) void Note(const F (&v)[16], Maxima* seen) {
  for (int i = 0; i < 16; ++i) {
    const U m = L::Bits(v[i]) & kAbsMask;
    for (int j = 0; j < W; ++j) {
      seen->nan |= m[j] > kInfBits;
      seen->inf |= m[j] == kInfBits;
    }
  }
}

// Adds a block's largest magnitude to a running one, NaN dropped.
QUANTD_FN void Add(const F (&v)[16], U max, U* running, bool* nan) {
  if (L::Any(max > kInfBits)) {
    *nan = true;
    max = MaxMagnitudeIgnoringNan<L>(v);
  }
  *running = L::Max(max, *running);
}

// One block a lane, along rows: W blocks from `p` on. `count` < W blocks are
// copied first, so that nothing beyond them is read; their lanes are zero.
template <DType D>
QUANTD_FN void LoadSomeBlocks(const std::byte* p, int64_t count, F (&v)[16]) {
  if (count >= W) {
    LoadBlocks<D, W>(p, v);
    return;
  }
  std::byte buffer[W * 16 * SizeOf(D)] = {};
  __builtin_memcpy(buffer, p, count * 16 * SizeOf(D));
  LoadBlocks<D, W>(buffer, v);
}

template <DType D>
QUANTD_FN void StoreSomeBlocks(F (&v)[16], std::byte* p, int64_t count) {
  if (count >= W) {
    StoreBlocks<D, W>(v, p);
    return;
  }
  std::byte buffer[W * 16 * SizeOf(D)];
  StoreBlocks<D, W>(v, buffer);
  __builtin_memcpy(p, buffer, count * 16 * SizeOf(D));
}

// One block a lane, along columns: 16 rows of W columns of a packed tile of
// kTileCols columns.
template <DType D>
QUANTD_FN void LoadColumns(const std::byte* tile, int64_t row, int64_t col,
                           F (&v)[16]) {
  for (int i = 0; i < 16; ++i) {
    v[i] = LoadLanes<D, W>(tile + ((row + i) * kTileCols + col) * SizeOf(D));
  }
}

// Copies rows x cols from x(row, col) into a packed tile, zeros around it.
// Strided columns of a large matrix share cache sets; a packed tile does not.
template <DType D>
void PackTile(const Matrix& x, int64_t row, int64_t rows, int64_t col,
              int64_t cols, std::byte* tile) {
  constexpr size_t kSize = SizeOf(D);
  const int64_t padded = (rows + 15) / 16 * 16;
  for (int64_t r = 0; r < padded; ++r) {
    std::byte* to = tile + r * kTileCols * kSize;
    const int64_t n = r < rows ? cols : 0;
    if (n > 0) {
      __builtin_memcpy(to, x.data + ((row + r) * x.cols + col) * kSize,
                       n * kSize);
    }
    if (n < kTileCols) {
      __builtin_memset(to + n * kSize, 0, (kTileCols - n) * kSize);
    }
  }
}

template <DType D>
void AmaxRows(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  constexpr size_t kSize = SizeOf(D);
  // The rows are contiguous: without a rotation their blocks are just a run of
  // elements, and with one K is a multiple of 16.
  const std::byte* p = a.x.data + first * a.x.cols * kSize;
  const int64_t elements = (last - first) * a.x.cols;
  const int64_t blocks = elements / 16;
  const Signs signs(a.row_signs);
  U plain{};
  U rotated{};
  bool dropped = false;
  for (int64_t b = 0; b < blocks; b += W) {
    F v[16];
    LoadSomeBlocks<D>(p + b * 16 * kSize, blocks - b, v);
    const U max = MaxMagnitude<L>(v);
    if (L::Any(max >= kInfBits)) Note(v, out);
    Add(v, max, &plain, &dropped);
    if (a.row_signs) {
      Add(v, RotateToBf16<L, kIsHalf<D>>(v, signs.lanes), &rotated,
          &out->row_rht_nan);
    }
  }
  if (elements % 16 != 0) {
    std::byte tail[16 * kSize] = {};
    __builtin_memcpy(tail, p + blocks * 16 * kSize, (elements % 16) * kSize);
    F v[16];
    LoadSomeBlocks<D>(tail, 1, v);
    const U max = MaxMagnitude<L>(v);
    if (L::Any(max >= kInfBits)) Note(v, out);
    Add(v, max, &plain, &dropped);
  }
  const uint32_t p_max = Reduce(plain);
  const uint32_t r_max = Reduce(rotated);
  out->plain = p_max > out->plain ? p_max : out->plain;
  out->row_rht = r_max > out->row_rht ? r_max : out->row_rht;
}

template <DType D>
void AmaxColumns(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  alignas(64) std::byte tile[16 * kTileCols * SizeOf(D)];
  const Signs signs(a.col_signs);
  U rotated{};
  for (int64_t row = first; row < last; row += 16) {
    for (int64_t col = 0; col < a.x.cols; col += kTileCols) {
      const int64_t cols = Min(kTileCols, a.x.cols - col);
      PackTile<D>(a.x, row, Min(16, last - row), col, cols, tile);
      for (int64_t c = 0; c < cols; c += W) {
        F v[16];
        LoadColumns<D>(tile, 0, c, v);
        Add(v, RotateToBf16<L, kIsHalf<D>>(v, signs.lanes), &rotated,
            &out->col_rht_nan);
      }
    }
  }
  const uint32_t max = Reduce(rotated);
  out->col_rht = max > out->col_rht ? max : out->col_rht;
}

// Encodes W blocks that `load` brings: any values. Out of line, so that the
// common path keeps its registers; `load` is called again there, to note what
// the input held before it was rotated.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecial(Load load,
                                                      const Nvfp4Copy& copy,
                                                      bool propagate,
                                                      Maxima* seen) {
  F v[16];
  load(v);
  if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
  const U max = copy.signs ? RotateToBf16<L>(v, Signs(copy.signs).lanes)
                           : MaxMagnitude<L>(v);
  return EncodeNvfp4<L>(v, max, Nvfp4Encode{copy.s_dec, copy.s_inv6},
                        propagate);
}

// A group of W blocks between the two halves of its way.
struct Group {
  F v[16];  // rotated, not yet rounded
  U scale;
  F m;
  bool special;  // holds NaN or Inf, or values that must be clamped
};

// First half: values, scale and multiplier. From a block's maximum to its
// multiplier is one long chain of operations; the second half of the group
// before fills the time.
template <bool kRht, bool kExact, typename Load>
QUANTD_FN void Prepare(Load load, const Nvfp4Copy& copy, const Signs& signs,
                       Group* group) {
  const Nvfp4Encode global = {copy.s_dec, copy.s_inv6};
  load(group->v);
  if constexpr (kRht) RotateForward<L, kExact>(group->v, signs.lanes);
  U max = MaxMagnitude<L>(group->v);
  if constexpr (kRht) max = L::Bits(RoundToBf16<L>(L::Float(max)));
  // Rotated values are finite only if all that went in is.
  group->special = L::Any(Nvfp4MayReach7<L>(max, global));
  group->scale = Nvfp4Scale<L>(max, global);
  group->m = Nvfp4Multiplier<L>(group->scale, copy.s_dec);
  // In memory from here on: in registers it would crowd out the other group.
  asm volatile("" : "+m"(*group));
}

// Second half: the codes. `load` as it was for the first.
template <bool kRht, typename Load>
QUANTD_FN Nvfp4Block<L> Encode(Load load, const Nvfp4Copy& copy, bool propagate,
                               Group* group, Maxima* seen) {
  if (__builtin_expect(group->special, false)) {
    return EncodeSpecial(load, copy, propagate, seen);
  }
  constexpr E2M1Input kInput =
      kRht ? E2M1Input::kUnroundedBelow7 : E2M1Input::kBelow7;
  return EncodeNvfp4Under<L, kInput>(group->v, group->scale, group->m);
}

template <DType D, bool kRht, bool kStream>
void QuantizeRowwise(const QuantizeArgs& a, int64_t first, int64_t last,
                     Maxima* seen) {
  constexpr size_t kSize = SizeOf(D);
  const Signs signs(a.row.signs);
  const int64_t blocks = a.x.cols / 16;
  Group groups[2];
  for (int64_t row = first; row < last; ++row) {
    const std::byte* p = a.x.data + row * a.x.cols * kSize;
    std::byte* data = a.row.data + row * a.row.data_stride;
    std::byte* scale = a.row.scale + row * a.row.scale_stride;
    const auto loader = [&](int64_t b) {
      return [=](F(&v)[16]) {
        LoadSomeBlocks<D>(p + b * 16 * kSize, blocks - b, v);
      };
    };
    const auto emit = [&](int64_t b, Group* group) {
      const Nvfp4Block<L> out =
          Encode<kRht>(loader(b), a.row, a.propagate, group, seen);
      const L::U8 scales = L::LowBytes(out.scale);
      const int64_t count = blocks - b;
      if (count >= W) {
        StorePairs<W, kStream>(out.low, out.high, data + 8 * b);
        __builtin_memcpy(scale + b, &scales, W);
      } else {
        std::byte words[8 * W];
        StorePairs<W>(out.low, out.high, words);
        __builtin_memcpy(data + 8 * b, words, 8 * count);
        __builtin_memcpy(scale + b, &scales, count);
      }
    };
    for (int64_t b = 0; b < blocks; b += W) {
      // Rows of a large matrix outrun the hardware's own prefetch.
      for (size_t at = 0; at < W * 16 * kSize; at += 64) {
        __builtin_prefetch(p + b * 16 * kSize + kAhead + at);
      }
      Prepare<kRht, kIsHalf<D>>(loader(b), a.row, signs, &groups[b / W % 2]);
      if (b > 0) emit(b - W, &groups[(b / W + 1) % 2]);
    }
    if (blocks > 0) {
      const int64_t b = (blocks - 1) / W * W;
      emit(b, &groups[b / W % 2]);
    }
  }
}

// The packed tile, column group by column group and in each one down the rows.
template <DType D, bool kRht>
QUANTD_FN void QuantizeTile(const QuantizeArgs& a, const std::byte* tile,
                            int64_t row, int64_t rows, int64_t col,
                            int64_t cols, const Signs& signs, Maxima* seen) {
  const int64_t down = (rows + 15) / 16;
  const int64_t total = (cols + W - 1) / W * down;
  Group groups[2];
  const auto loader = [=](int64_t g) {
    return [=](F(&v)[16]) {
      LoadColumns<D>(tile, g % down * 16, g / down * W, v);
    };
  };
  const auto emit = [&](int64_t g) {
    const Nvfp4Block<L> out =
        Encode<kRht>(loader(g), a.col, a.propagate, &groups[g % 2], seen);
    std::byte words[8 * W];
    StorePairs<W>(out.low, out.high, words);
    const L::U8 scales = L::LowBytes(out.scale);
    const int64_t c = g / down * W;
    const int64_t block = row / 16 + g % down;
    const int64_t lanes = Min(W, cols - c);
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t line = col + c + i;
      __builtin_memcpy(a.col.data + line * a.col.data_stride + 8 * block,
                       words + 8 * i, 8);
      a.col.scale[line * a.col.scale_stride + block] =
          static_cast<std::byte>(scales[i]);
    }
  };
  for (int64_t g = 0; g < total; ++g) {
    Prepare<kRht, kIsHalf<D>>(loader(g), a.col, signs, &groups[g % 2]);
    if (g > 0) emit(g - 1);
  }
  if (total > 0) emit(total - 1);
}

template <DType D, bool kRht>
void QuantizeColumnwise(const QuantizeArgs& a, int64_t first, int64_t last,
                        Maxima* seen) {
  alignas(64) std::byte tile[kTileRows * kTileCols * SizeOf(D)];
  const Signs signs(a.col.signs);
  for (int64_t row = first; row < last; row += kTileRows) {
    const int64_t rows = Min(kTileRows, last - row);
    for (int64_t col = 0; col < a.x.cols; col += kTileCols) {
      const int64_t cols = Min(kTileCols, a.x.cols - col);
      PackTile<D>(a.x, row, rows, col, cols, tile);
      QuantizeTile<D, kRht>(a, tile, row, rows, col, cols, signs, seen);
    }
  }
}

// Rounds to the output type and back, as the inverse rotation wants it.
template <DType D>
QUANTD_FN void RoundTo(F (&v)[16]) {
  if constexpr (D != DType::kF32) {
    for (int i = 0; i < 16; ++i) v[i] = Decode16<L, D>(Encode16<L, D>(v[i]));
  }
}

template <DType D>
QUANTD_FN void Decode(const Nvfp4Block<L>& block, const DequantizeArgs& a,
                      const Signs& signs, F (&v)[16]) {
  DecodeNvfp4<L>(block, Nvfp4Decode{a.amax, a.k}, v);
  if (a.signs) {
    RoundTo<D>(v);
    RotateInverse<L>(v, signs.lanes);
  }
}

template <DType D>
void DequantizeRowwise(const DequantizeArgs& a, int64_t first, int64_t last) {
  const Signs signs(a.signs);
  const int64_t blocks = a.cols / 16;
  for (int64_t row = first; row < last; ++row) {
    const std::byte* data = a.data + row * a.data_stride;
    const std::byte* scale = a.scale + row * a.scale_stride;
    std::byte* out = a.out + row * a.cols * SizeOf(D);
    for (int64_t b = 0; b < blocks; b += W) {
      const int64_t count = Min(W, blocks - b);
      std::byte words[8 * W] = {};
      L::U8 scales{};
      __builtin_memcpy(words, data + 8 * b, 8 * count);
      __builtin_memcpy(&scales, scale + b, count);
      F v[16];
      Nvfp4Block<L> block;
      LoadPairs<W>(words, &block.low, &block.high);
      block.scale = __builtin_convertvector(scales, U);
      Decode<D>(block, a, signs, v);
      StoreSomeBlocks<D>(v, out + b * 16 * SizeOf(D), count);
    }
  }
}

template <DType D>
void DequantizeColumnwise(const DequantizeArgs& a, int64_t first,
                          int64_t last) {
  const Signs signs(a.signs);
  for (int64_t row = first; row < last; row += 16) {
    const int64_t rows = Min(16, last - row);
    for (int64_t col = 0; col < a.cols; col += W) {
      const int64_t lanes = Min(W, a.cols - col);
      std::byte words[8 * W] = {};
      L::U8 scales{};
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t line = col + i;
        __builtin_memcpy(words + 8 * i, a.data + line * a.data_stride + row / 2,
                         8);
        scales[i] =
            static_cast<uint8_t>(a.scale[line * a.scale_stride + row / 16]);
      }
      F v[16];
      Nvfp4Block<L> block;
      LoadPairs<W>(words, &block.low, &block.high);
      block.scale = __builtin_convertvector(scales, U);
      Decode<D>(block, a, signs, v);
      for (int64_t r = 0; r < rows; ++r) {
        std::byte* to = a.out + ((row + r) * a.cols + col) * SizeOf(D);
        if (lanes == W) {
          StoreLanes<D, W>(v[r], to);
        } else {
          std::byte buffer[W * SizeOf(D)];
          StoreLanes<D, W>(v[r], buffer);
          __builtin_memcpy(to, buffer, lanes * SizeOf(D));
        }
      }
    }
  }
}

template <DType D, DType Out>
void RotateRows(const RotateArgs& a, int64_t first, int64_t last,
                Maxima* seen) {
  const Signs signs(a.signs);
  const int64_t begin = first * a.x.cols / 16;
  const int64_t end = last * a.x.cols / 16;
  for (int64_t b = begin; b < end; b += W) {
    const int64_t count = Min(W, end - b);
    F v[16];
    LoadSomeBlocks<D>(a.x.data + b * 16 * SizeOf(D), count, v);
    if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
    a.inverse ? RotateInverse<L>(v, signs.lanes)
              : RotateForward<L, kIsHalf<D>>(v, signs.lanes);
    StoreSomeBlocks<Out>(v, a.out + b * 16 * SizeOf(Out), count);
  }
}

void Amax(const AmaxArgs& a, int64_t first, int64_t last, Maxima* out) {
  ForDType(a.x.dtype, [&]<DType D>() {
    AmaxRows<D>(a, first, last, out);
    if (a.col_signs) AmaxColumns<D>(a, first, last, out);
  });
}

void Quantize(const QuantizeArgs& a, int64_t first, int64_t last,
              Maxima* seen) {
  ForDType(a.x.dtype, [&]<DType D>() {
    if (a.row.data) {
      const auto run = [&]<bool kStream>() {
        a.row.signs ? QuantizeRowwise<D, true, kStream>(a, first, last, seen)
                    : QuantizeRowwise<D, false, kStream>(a, first, last, seen);
      };
      if (MayStream(a.row.data, a.row.data_stride, a.x.rows, sizeof(U))) {
        run.template operator()<true>();
        StreamFence();
      } else {
        run.template operator()<false>();
      }
    }
    if (a.col.data) {
      a.col.signs ? QuantizeColumnwise<D, true>(a, first, last, seen)
                  : QuantizeColumnwise<D, false>(a, first, last, seen);
    }
  });
}

void DequantizeRow(const DequantizeArgs& a, int64_t first, int64_t last) {
  ForDType(a.dtype, [&]<DType D>() { DequantizeRowwise<D>(a, first, last); });
}

void DequantizeCol(const DequantizeArgs& a, int64_t first, int64_t last) {
  ForDType(a.dtype,
           [&]<DType D>() { DequantizeColumnwise<D>(a, first, last); });
}

void Rotate(const RotateArgs& a, int64_t first, int64_t last, Maxima* seen) {
  ForDType(a.x.dtype, [&]<DType D>() {
    ForDType(a.dtype,
             [&]<DType Out>() { RotateRows<D, Out>(a, first, last, seen); });
  });
}

}  // namespace
}  // namespace QUANTD_ARITH

namespace cpu {
const TileKernels QUANTD_TILES = {
    Amax,        Quantize,      DequantizeRow,   DequantizeCol,
    Rotate,      QuantizeLines, DequantizeLines, AmaxLines,
    RotateLines, SumChunk,      SumChunks};
}  // namespace cpu
}  // namespace quantd
