// NVFP4 codes and scales, rowwise and columnwise, plain or rotated. Leaf rule:
// see tiles.cc.
#include "kernels/cpu/isa/nvfp4_quantize.h"

#include "kernels/cpu/isa/stream.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using cpu::kTileRows;

constexpr int W = QUANTD_LANES;

constexpr size_t kAhead = 4096;  // bytes

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
  const Way way = WayOf(a.params.numerics, a.row);
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
                     CopyOf(e, group.rowwise),
                     CopyOf(e, group.columnwise)};
  QuantizeRows(rows, first, last, seen);
}
}  // namespace QUANTD_ARITH
}  // namespace quantd
