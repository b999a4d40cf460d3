// NVFP4 codes and scales, rowwise and columnwise, plain or rotated. Leaf rule:
// see tiles.cc.
#include "kernels/arith/encode.h"
#include "kernels/cpu/isa/nvfp4.h"
#include "kernels/cpu/isa/stream.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using cpu::kTileRows;
using cpu::Maxima;

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

constexpr size_t kAhead = 4096;  // bytes

// A copy, with what all its blocks share.
struct Copy : CopyTask {
  Nvfp4Encode amax_scale = {};
  float global = 1;  // of a profile: GlobalScaleOf
};

Copy CopyOf(const EncodeParams& params, const CopyTask& task) {
  Copy copy = {task};
  if (copy.data == nullptr) return copy;
  copy.amax_scale = MakeNvfp4Encode(*copy.amax, kNvfp4Range448);
  if (WorksWithGlobal<true>(params.numerics)) {
    copy.global = GlobalScaleOf<Scalar>(params, *copy.amax);
  }
  return copy;
}

// A group of rows with its copies.
struct Rows {
  const EncodeParams& params;
  cpu::Matrix x;
  Copy row;
  Copy col;
};

// Columns that both copies are made of, one after the other: with kTileRows
// rows of fp32 they fill half an L2 cache of 1 MiB.
constexpr int64_t kShared = 1024;

// Encodes W blocks that `load` brings: any values. Out of line, so that the
// common path keeps its registers; `load` is called again there, to note what
// the input held before it was rotated.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecial(const EncodeParams& p,
                                                      Load load,
                                                      const Copy& copy,
                                                      Maxima* seen) {
  F v[16];
  load(v);
  if (L::Any(MaxMagnitude<L>(v) >= kInfBits)) Note(v, seen);
  const U max = copy.signs ? RotateToBf16<L>(v, Signs(copy.signs).lanes)
                           : MaxMagnitude<L>(v);
  return EncodeNvfp4<L>(v, max, copy.amax_scale, p.propagate);
}

// A group of W blocks between the two halves of its way.
struct Group {
  F v[16];  // rotated, not yet rounded
  U scale;
  F m;
  bool special;  // holds NaN or Inf, or values that must be clamped
};

// Whose arithmetic a block goes through: how its elements become codes is known
// to the compiler, all else of a profile is asked for once a group.
enum class Way { kTe, kTimes, kOver, kOverNegative };

Way WayOf(const Numerics& n) {
  if (!WorksWithGlobal<true>(n)) return Way::kTe;
  if (n.operation == Operation::kTimes) return Way::kTimes;
  return n.sign == SignRule::kNegative ? Way::kOverNegative : Way::kOver;
}

LineScale<L> LineOf(const Copy& copy) {
  const F g = L::Broadcast(copy.global);
  return {g, g, g, g};
}

// EncodeSpecial of a profile.
template <typename Load>
__attribute__((noinline)) Nvfp4Block<L> EncodeSpecialBy(const EncodeParams& p,
                                                        Load load,
                                                        const Copy& copy,
                                                        Maxima* seen) {
  F v[16];
  load(v);
  U max, clean;
  FindMaxima<L>(v, 16, &max, &clean);
  if (L::Any(max >= kInfBits)) Note(v, seen);
  const BlockScale<L> scale =
      MakeBlockScale<L, true>(p, LineOf(copy), max, clean);
  U words[4];
  EncodeSixteen<L, true>(p, v, scale.m, nullptr, words);
  return {words[0], words[1], scale.stored};
}

// Prepare of a profile. `m` is what elements are multiplied with or divided by.
template <typename Load>
QUANTD_FN void PrepareBy(const EncodeParams& p, Load load, const Copy& copy,
                         Group* group) {
  load(group->v);
  const U max = MaxMagnitude<L>(group->v);
  const F g = L::Broadcast(copy.global);
  group->scale = Nvfp4ScaleUnder<L>(p, g, max);
  group->m = Nvfp4OperandUnder<L>(p.numerics, g, group->scale);
  const U operand = L::Bits(group->m);
  group->special =
      L::Any((max >= kInfBits) | (operand == 0u) | (operand >= kInfBits));
  asm volatile("" : "+m"(*group));
}

template <Way kWay, typename Load>
QUANTD_FN Nvfp4Block<L> EncodeBy(const EncodeParams& p, Load load,
                                 const Copy& copy, Group* group, Maxima* seen) {
  Nvfp4Block<L> out;
  if (__builtin_expect(group->special, false)) {
    out = EncodeSpecialBy(p, load, copy, seen);
  } else {
    constexpr bool kTimes = kWay == Way::kTimes;
    constexpr bool kNegative = kWay == Way::kOverNegative;
    out = {PackE2M1By<L, kTimes, kNegative>(group->v, group->m),
           PackE2M1By<L, kTimes, kNegative>(group->v + 8, group->m),
           group->scale};
  }
  if (kWay == Way::kOver && p.numerics.high_first) {
    out.low = SwapNibbles<L>(out.low);
    out.high = SwapNibbles<L>(out.high);
  }
  return out;
}

// First half: values, scale and multiplier. From a block's maximum to its
// multiplier is one long chain of operations; the second half of the group
// before fills the time.
template <bool kRht, bool kExact, typename Load>
QUANTD_FN void Prepare(Load load, const Copy& copy, const Signs& signs,
                       Group* group) {
  load(group->v);
  if constexpr (kRht) RotateForward<L, kExact>(group->v, signs.lanes);
  U max = MaxMagnitude<L>(group->v);
  if constexpr (kRht) max = L::Bits(RoundToBf16<L>(L::Float(max)));
  // Rotated values are finite only if all that went in is.
  const F wanted = L::Float(max) * copy.amax_scale.s_inv6;
  group->special = L::Any(Nvfp4MayReach7<L>(wanted) & (max != 0u));
  group->scale = Nvfp4Scale<L>(max, copy.amax_scale.s_inv6);
  group->m = Nvfp4Multiplier<L>(group->scale, copy.amax_scale.s_dec);
  // In memory from here on: in registers it would crowd out the other group.
  asm volatile("" : "+m"(*group));
}

// Second half: the codes. `load` as it was for the first.
template <bool kRht, typename Load>
QUANTD_FN Nvfp4Block<L> Encode(const EncodeParams& p, Load load,
                               const Copy& copy, Group* group, Maxima* seen) {
  if (__builtin_expect(group->special, false)) {
    return EncodeSpecial(p, load, copy, seen);
  }
  constexpr E2M1Input kInput =
      kRht ? E2M1Input::kUnroundedBelow7 : E2M1Input::kBelow7;
  return EncodeNvfp4Under<L, kInput>(group->v, group->scale, group->m);
}

template <DType D, bool kRht, bool kStream, Way kWay>
void QuantizeRowwise(const Rows& a, int64_t first, int64_t last, int64_t begin,
                     int64_t end, Maxima* seen) {
  constexpr size_t kSize = SizeOf(D);
  const Signs signs(a.row.signs);
  const int64_t blocks = (end - begin) / 16;
  Group groups[2];
  for (int64_t row = first; row < last; ++row) {
    const std::byte* p = a.x.data + (row * a.x.cols + begin) * kSize;
    std::byte* data = a.row.data + row * a.row.data_line + begin / 2;
    std::byte* scale = a.row.scale + row * a.row.scale_line + begin / 16;
    const auto loader = [&](int64_t b) {
      return [=](F(&v)[16]) {
        LoadSomeBlocks<D>(p + b * 16 * kSize, blocks - b, v);
      };
    };
    const auto emit = [&](int64_t b, Group* group) {
      Nvfp4Block<L> out;
      if constexpr (kWay == Way::kTe) {
        out = Encode<kRht>(a.params, loader(b), a.row, group, seen);
      } else {
        out = EncodeBy<kWay>(a.params, loader(b), a.row, group, seen);
      }
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
      Prefetch<W * 16 * kSize>(p + b * 16 * kSize + kAhead);
      Group* const next = &groups[b / W % 2];
      if constexpr (kWay == Way::kTe) {
        Prepare<kRht, kIsHalf<D>>(loader(b), a.row, signs, next);
      } else {
        PrepareBy(a.params, loader(b), a.row, next);
      }
      if (b > 0) emit(b - W, &groups[(b / W + 1) % 2]);
    }
    if (blocks > 0) {
      const int64_t b = (blocks - 1) / W * W;
      emit(b, &groups[b / W % 2]);
    }
  }
}

// Codes and scales of kTileRows rows of a band's columns, before they leave: a
// column's codes are a whole cache line, which is written once.
struct Stage {
  alignas(64) std::byte codes[kBandCols][kTileRows / 2];
  std::byte scales[kBandCols][kTileRows / 16];
};

template <bool kStream>
void Flush(const Stage& stage, const Copy& copy, int64_t row, int64_t rows,
           int64_t col, int64_t cols) {
  const int64_t blocks = (rows + 15) / 16;
  std::byte* data = copy.data + col * copy.data_line + row / 2;
  std::byte* scale = copy.scale + col * copy.scale_line + row / 16;
  for (int64_t c = 0; c < cols; ++c) {
    if (rows == kTileRows) {
      StoreBytes<kStream, kTileRows / 2>(stage.codes[c], data);
      __builtin_memcpy(scale, stage.scales[c], kTileRows / 16);
    } else {
      __builtin_memcpy(data, stage.codes[c], 8 * blocks);
      __builtin_memcpy(scale, stage.scales[c], blocks);
    }
    data += copy.data_line;
    scale += copy.scale_line;
  }
}

// kTileRows rows of a band's columns, sixteen rows after sixteen.
template <DType D, bool kRht>
QUANTD_FN void QuantizeBands(const Rows& a, int64_t row, int64_t rows,
                             int64_t col, int64_t cols, const Signs& signs,
                             Stage* stage, Maxima* seen) {
  Band<D> bands[2];  // that of the group before is read again if it is special
  Group groups[2];
  struct Place {
    int64_t block;
    int64_t vector;
  };
  const auto loader = [&](Place at) {
    return [band = &bands[at.block % 2], vector = at.vector](F(&v)[16]) {
      LoadColumns<D>(*band, vector, v);
    };
  };
  const auto emit = [&](Place at, Group* group) {
    const Nvfp4Block<L> out =
        Encode<kRht>(a.params, loader(at), a.col, group, seen);
    std::byte words[8 * W];
    StorePairs<W>(out.low, out.high, words);
    const L::U8 scales = L::LowBytes(out.scale);
    for (int i = 0; i < W; ++i) {
      const int64_t c = ColumnOf<D>(at.vector, i);
      __builtin_memcpy(stage->codes[c] + 8 * at.block, words + 8 * i, 8);
      stage->scales[c][at.block] = static_cast<std::byte>(scales[i]);
    }
  };
  const int64_t blocks = (rows + 15) / 16;
  // Vectors come in pairs, so that the two groups change places evenly.
  const int64_t vectors = (cols + 2 * W - 1) / (2 * W) * 2;
  constexpr int64_t kSize = SizeOf(D);
  const int64_t pitch = a.x.cols * kSize;
  Place before = {-1, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t top = row + 16 * block;
    const std::byte* next =
        block + 1 < blocks
            ? a.x.data + ((top + 16) * a.x.cols + col) * SizeOf(D)
            : a.x.data + (row * a.x.cols + col + kBandCols) * SizeOf(D);
    PackBand<D>(a.x, top, Least(16, rows - 16 * block), col, cols,
                &bands[block % 2]);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      // The next band, which the hardware does not see coming; as evenly as it
      // can be, since a core waits for only so many lines at once.
      for (int64_t r = vector * W / 8; r < (vector + 1) * W / 8; ++r) {
        Prefetch<kBandCols * kSize>(next + r * pitch);
      }
      const Place at = {block, vector};
      Prepare<kRht, kIsHalf<D>>(loader(at), a.col, signs, &groups[vector % 2]);
      if (before.block >= 0) emit(before, &groups[(vector + 1) % 2]);
      before = at;
    }
  }
  if (blocks > 0 && vectors > 0) emit(before, &groups[1]);
}

template <DType D, bool kRht, bool kStream>
void QuantizeColumnwise(const Rows& a, int64_t first, int64_t last,
                        int64_t begin, int64_t end, Maxima* seen) {
  Stage stage;
  const Signs signs(a.col.signs);
  const int64_t rows = last - first;
  for (int64_t col = begin; col < end; col += kBandCols) {
    const int64_t cols = Least(kBandCols, end - col);
    QuantizeBands<D, kRht>(a, first, rows, col, cols, signs, &stage, seen);
    Flush<kStream>(stage, a.col, first, rows, col, cols);
  }
}

// Out of line: were it known here what made `a`, its members would crowd the
// loops' values out of the registers.
__attribute__((noinline)) void QuantizeRows(const Rows& a, int64_t first,
                                            int64_t last, Maxima* seen) {
  const Way way = WayOf(a.params.numerics);
  const bool row_stream =
      a.row.data && MayStream(a.row.data, a.row.data_line, a.x.rows, sizeof(U));
  const bool col_stream =
      a.col.data && MayStream(a.col.data, a.col.data_line, a.x.cols, 64);
  // What both copies read stays in the L2 cache from the first to the second.
  const int64_t step = a.row.data && a.col.data ? kShared : a.x.cols;
  ForDType(a.x.dtype, [&]<DType D>() {
    const auto rowwise = [&]<bool kRht>(auto... part) {
      row_stream ? QuantizeRowwise<D, kRht, true, Way::kTe>(a, part..., seen)
                 : QuantizeRowwise<D, kRht, false, Way::kTe>(a, part..., seen);
    };
    const auto by = [&]<Way kWay>(auto... part) {
      row_stream ? QuantizeRowwise<D, false, true, kWay>(a, part..., seen)
                 : QuantizeRowwise<D, false, false, kWay>(a, part..., seen);
    };
    const auto columnwise = [&]<bool kRht>(auto... part) {
      col_stream ? QuantizeColumnwise<D, kRht, true>(a, part..., seen)
                 : QuantizeColumnwise<D, kRht, false>(a, part..., seen);
    };
    for (int64_t row = first; row < last; row += kTileRows) {
      const int64_t end = Least(row + kTileRows, last);
      for (int64_t col = 0; col < a.x.cols; col += step) {
        const int64_t right = Least(col + step, a.x.cols);
        if (way == Way::kTimes) {
          by.template operator()<Way::kTimes>(row, end, col, right);
        } else if (way == Way::kOver) {
          by.template operator()<Way::kOver>(row, end, col, right);
        } else if (way == Way::kOverNegative) {
          by.template operator()<Way::kOverNegative>(row, end, col, right);
        } else if (a.row.data) {
          a.row.signs
              ? rowwise.template operator()<true>(row, end, col, right)
              : rowwise.template operator()<false>(row, end, col, right);
        }
        if (a.col.data) {
          a.col.signs
              ? columnwise.template operator()<true>(row, end, col, right)
              : columnwise.template operator()<false>(row, end, col, right);
        }
      }
    }
  });
  if (row_stream || col_stream) StreamFence();
}

}  // namespace

void QuantizeNvfp4(const EncodeParams& e, const GroupTask& group, int64_t first,
                   int64_t last, cpu::Maxima* seen) {
  const Rows rows = {e,
                     {group.x, e.input, group.rows, e.cols},
                     CopyOf(e, group.rowwise),
                     CopyOf(e, group.columnwise)};
  QuantizeRows(rows, first, last, seen);
}
}  // namespace QUANTD_ARITH
}  // namespace quantd
