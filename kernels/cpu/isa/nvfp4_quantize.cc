// NVFP4 codes and scales, rowwise and columnwise, plain or rotated. The leaf
// rule of tiles.cc applies.
#include "kernels/cpu/isa/nvfp4_quantize.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr size_t kAhead = 4096;  // bytes to prefetch ahead

// A group of rows with its copies.
struct Rows {
  const EncodeParams& params;
  cpu::Matrix x;
  int64_t first;  // row in the whole payload
  Copy row;
  Copy col;
};

// The number of columns for which one copy is made and then the other, before
// the next columns are read. In fp32, kTileRows rows of them fill half an L2
// cache of 1 MiB.
constexpr int64_t kShared = 1024;

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
    const auto loader = [&](int64_t b) {
      return [=](F(&v)[16]) {
        LoadSomeBlocks<D>(p + b * 16 * kSize, blocks - b, v);
      };
    };
    const auto emit = [&](int64_t b, Group* group) {
      Nvfp4Block<L> out;
      if constexpr (kWay == Way::kTe) {
        out = Encode<kRht>(a.params, loader(b), a.row, group, seen);
      } else if constexpr (kWay == Way::kTeStochastic) {
        out = EncodeByBytes<kRht, 1>(
            a.params, loader(b), a.row,
            RowCounter(a.params, a.first + row, begin / 16 + b),
            a.params.subsequence, group, seen);
      } else if constexpr (kWay == Way::kTeFourOverSix) {
        out = EncodeFourOverSix(a.params, loader(b), a.row, group, seen);
      } else {
        out = EncodeBy<kWay>(a.params, loader(b), a.row, group, seen);
      }
      const L::U8 codes = L::LowBytes(out.scale);
      std::byte scales[W];
      __builtin_memcpy(scales, &codes, W);
      const int64_t count = blocks - b;
      if (count >= W) {
        StorePairs<W, kStream>(out.low, out.high, data + 8 * b);
        StoreScaleRun(a.row, row, begin / 16 + b, scales, W);
      } else {
        std::byte words[8 * W];
        StorePairs<W>(out.low, out.high, words);
        __builtin_memcpy(data + 8 * b, words, 8 * count);
        StoreScaleRun(a.row, row, begin / 16 + b, scales, count);
      }
    };
    for (int64_t b = 0; b < blocks; b += W) {
      // The hardware's prefetch cannot keep up with rows of a large matrix.
      Prefetch<W * 16 * kSize>(p + b * 16 * kSize + kAhead);
      Group* const next = &groups[b / W % 2];
      if constexpr (kWay == Way::kTeFourOverSix) {
        PrepareFourOverSix(a.params, loader(b), a.row, next);
      } else if constexpr (IsTe(kWay)) {
        Prepare<kRht, kIsHalf<D>, kWay>(loader(b), a.row, signs, next);
      } else {
        PrepareBy<kWay>(a.params, loader(b), a.row, next);
      }
      if (b > 0) emit(b - W, &groups[(b / W + 1) % 2]);
    }
    if (blocks > 0) {
      const int64_t b = (blocks - 1) / W * W;
      emit(b, &groups[b / W % 2]);
    }
  }
}

// Encodes kTileRows rows of a band's columns, sixteen rows at a time.
template <DType D, bool kRht, Way kWay>
QUANTD_FN void QuantizeBands(const Rows& a, int64_t row, int64_t rows,
                             int64_t col, int64_t cols, const Signs& signs,
                             Stage* stage, Maxima* seen) {
  Band<D> bands[2];  // two, because a special group is read again while the
                     // next is in progress
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
    Nvfp4Block<L> out;
    if constexpr (kWay == Way::kTeStochastic) {
      constexpr int kStep = ColumnOf<D>(0, 1) - ColumnOf<D>(0, 0);
      out = EncodeByBytes<kRht, kStep>(
          a.params, loader(at), a.col,
          ColumnCounter(a.params, a.first, row / 16 + at.block,
                        col + ColumnOf<D>(at.vector, 0)),
          a.params.subsequence + 1, group, seen);
    } else if constexpr (kWay == Way::kTeFourOverSix) {
      out = EncodeFourOverSix(a.params, loader(at), a.col, group, seen);
    } else {
      out = Encode<kRht>(a.params, loader(at), a.col, group, seen);
    }
    StageCodes<D>(out.low, out.high, at.vector, at.block, stage);
    const L::U8 scales = L::LowBytes(out.scale);
    constexpr int64_t kStep = ColumnOf<D>(0, 1) - ColumnOf<D>(0, 0);
    std::byte* to = stage->scales[ColumnOf<D>(at.vector, 0)] + at.block;
    for (int i = 0; i < W; ++i) {
      to[i * kStep * sizeof(stage->scales[0])] =
          static_cast<std::byte>(scales[i]);
    }
  };
  const int64_t blocks = (rows + 15) / 16;
  // The number of vectors is even, so that the two groups alternate.
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
      // Prefetches the next band, which the hardware cannot predict. The
      // prefetches are spread evenly, because a core can have only a few cache
      // misses in flight.
      for (int64_t r = vector * W / 8; r < (vector + 1) * W / 8; ++r) {
        Prefetch<kBandCols * kSize>(next + r * pitch);
      }
      const Place at = {block, vector};
      Group* const group = &groups[vector % 2];
      if constexpr (kWay == Way::kTeFourOverSix) {
        PrepareFourOverSix(a.params, loader(at), a.col, group);
      } else {
        Prepare<kRht, kIsHalf<D>, kWay>(loader(at), a.col, signs, group);
      }
      if (before.block >= 0) emit(before, &groups[(vector + 1) % 2]);
      before = at;
    }
  }
  if (blocks > 0 && vectors > 0) emit(before, &groups[1]);
}

template <DType D, bool kRht, Way kWay>
void QuantizeColumnwise(const Rows& a, bool stream, int64_t first, int64_t last,
                        int64_t begin, int64_t end, Maxima* seen) {
  Stage stage;
  const Signs signs(a.col.signs);
  const int64_t rows = last - first;
  for (int64_t col = begin; col < end; col += kBandCols) {
    const int64_t cols = Least(kBandCols, end - col);
    QuantizeBands<D, kRht, kWay>(a, first, rows, col, cols, signs, &stage,
                                 seen);
    (stream ? Flush<true> : Flush<false>)(stage, a.col, first, rows, col, cols);
  }
}

// Not inlined: otherwise the compiler would keep members of `a` in registers
// that the loops need.
__attribute__((noinline)) void QuantizeRows(const Rows& a, int64_t first,
                                            int64_t last, Maxima* seen) {
  const Way way = WayOf(a.params, a.row);
  const bool row_stream =
      a.row.data && MayStream(a.row.data, a.row.data_line, a.x.rows, sizeof(U));
  const bool col_stream =
      a.col.data && MayStream(a.col.data, a.col.data_line, a.x.cols, 64);
  // If both copies are made, a step's input stays in the L2 cache between them.
  const int64_t step = a.row.data && a.col.data ? kShared : a.x.cols;
  ForDType(a.x.dtype, [&]<DType D>() {
    const auto rowwise = [&]<bool kRht>(auto... part) {
      if (!kRht && way == Way::kTeFourOverSix) {
        QuantizeRowwise<D, false, false, Way::kTeFourOverSix>(a, part..., seen);
        return;
      }
      way == Way::kTeStochastic
          ? QuantizeRowwise<D, kRht, false, Way::kTeStochastic>(a, part...,
                                                                seen)
      : row_stream
          ? QuantizeRowwise<D, kRht, true, Way::kTe>(a, part..., seen)
          : QuantizeRowwise<D, kRht, false, Way::kTe>(a, part..., seen);
    };
    const auto by = [&]<Way kWay>(auto... part) {
      row_stream ? QuantizeRowwise<D, false, true, kWay>(a, part..., seen)
                 : QuantizeRowwise<D, false, false, kWay>(a, part..., seen);
    };
    const auto columnwise = [&]<bool kRht>(auto... part) {
      if (!kRht && way == Way::kTeFourOverSix) {
        QuantizeColumnwise<D, false, Way::kTeFourOverSix>(a, col_stream,
                                                          part..., seen);
        return;
      }
      way == Way::kTeStochastic
          ? QuantizeColumnwise<D, kRht, Way::kTeStochastic>(a, col_stream,
                                                            part..., seen)
          : QuantizeColumnwise<D, kRht, Way::kTe>(a, col_stream, part..., seen);
    };
    for (int64_t row = first; row < last; row += kTileRows) {
      const int64_t end = Least(row + kTileRows, last);
      for (int64_t col = 0; col < a.x.cols; col += step) {
        const int64_t right = Least(col + step, a.x.cols);
        if (IsMultiplied(way)) {
          if constexpr (D == DType::kBF16) {
            way == Way::kMultiplied
                ? by.template operator()<Way::kMultiplied>(row, end, col, right)
            : way == Way::kMultipliedNegative
                ? by.template operator()<Way::kMultipliedNegative>(row, end,
                                                                   col, right)
                : by.template operator()<Way::kMultipliedHighFirst>(row, end,
                                                                    col, right);
          }
        } else if (way == Way::kTimes) {
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
                     group.row,
                     CopyOf(e, group.rowwise),
                     CopyOf(e, group.columnwise)};
  QuantizeRows(rows, first, last, seen);
}
}  // namespace QUANTD_ARITH
}  // namespace quantd
