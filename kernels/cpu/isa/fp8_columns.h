// Encodes panels of 64 columns to FP8 codes, and stores the codes in the
// columnwise and rowwise copies. Included only by fp8_columns.cc and
// fp8_squares.cc, which are compiled once for each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_FP8_COLUMNS_H_
#define QUANTD_KERNELS_CPU_ISA_FP8_COLUMNS_H_

#include "kernels/cpu/isa/fp8.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The number of columns of a panel. The codes of a panel's row fill a cache
// line. A panel has as many rows as share a scale.
inline constexpr int kPanel = 64;
inline constexpr int kTwins = kPanel / (2 * QUANTD_LANES);
inline constexpr int kMostRows = 128;

struct Panel {
  const std::byte* from;
  int64_t pitch;  // bytes from row to row
  int64_t row;
  int64_t col;
  int64_t rows;
  int64_t cols;  // columns inside the matrix; the others hold zeros
  // The number of rows of kPanel values at `from`. If rows of the matrix are
  // short, a panel row holds several of them, `width` values apart. The codes
  // have the same layout.
  int64_t taken = rows;
  int64_t width = kPanel;
};

// Copies a partial panel to `to`, with zeros after its values, and lets the
// panel begin at `to`. The cost depends on the number of values, not of rows.
template <DType D>
QUANTD_FN void PackPart(Panel* s, std::byte* to) {
  constexpr int64_t kSize = SizeOf(D);
  int64_t width = kPanel;
  while (width / 2 >= s->cols) width /= 2;
  const int64_t n = s->cols * kSize;
  const int64_t all = s->rows * width * kSize;
  const int64_t taken = (s->rows * width + kPanel - 1) / kPanel;
  if (n == s->pitch && s->cols == width) {
    __builtin_memcpy(to, s->from, all);
  } else {
    for (int64_t r = 0; r < s->rows; ++r) {
      std::byte* const row = to + r * width * kSize;
      __builtin_memcpy(row, s->from + r * s->pitch, n);
      __builtin_memset(row + n, 0, width * kSize - n);
    }
  }
  __builtin_memset(to + all, 0, taken * kPanel * kSize - all);
  s->from = to;
  s->pitch = kPanel * kSize;
  s->taken = taken;
  s->width = width;
}

// Prefetches the row at `row` of the panel after the next one.
template <DType D>
QUANTD_FN void PrefetchPanel(const std::byte* row) {
  constexpr int64_t kBytes = kPanel * SizeOf(D);
  Prefetch<kBytes>(row + 2 * kBytes);
}

// The destinations of a panel's codes, row by row. If `rows` is set, the codes
// are also written to the rowwise copy.
struct Codes {
  std::byte* to;
  int64_t pitch;
  std::byte* rows = nullptr;
  int64_t rows_pitch = 0;
};

// Encodes `row_count` rows of a panel. With kStream, stores to `out.rows` (with
// kRows) or to `out.to` bypass the caches. Returns false if kWatch is set and a
// value is NaN or Inf.
template <DType D, int kMantissa, bool kSpecial, bool kStream, bool kRows,
          bool kWatch>
QUANTD_FN bool Encode(const std::byte* from, int64_t from_pitch,
                      int64_t row_count, const Lane::F (&m)[2 * kTwins],
                      const Codes& out) {
  using L = Lane;
  constexpr int W = QUANTD_LANES;
  constexpr int kEach = 16 / W;  // twins per store
  Running<D, kSpecial> running;
  for (int64_t r = 0; r < row_count; ++r) {
    const std::byte* p = from + r * from_pitch;
    if constexpr (kWatch) PrefetchPanel<D>(p);
    QUANTD_UNROLL
    for (int c = 0; c < kPanel / kFp8Step; ++c) {
      L::U codes[kEach];
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

// Transposes 16 x 16 bytes, from rows `pitch` apart to columns `out_pitch`
// apart.
QUANTD_FN void TransposeBytes(const std::byte* from, int64_t pitch,
                              std::byte* to, int64_t out_pitch) {
  __m128i a[16];
  __m128i b[16];
  for (int i = 0; i < 16; ++i) {
    __builtin_memcpy(&a[i], from + i * pitch, sizeof(a[i]));
  }
  // Interleaves row i with row i + 8, four times.
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

// Stores the codes of a panel, row by row in `codes`, in a copy whose columns
// are contiguous. A column of a whole panel is two cache lines, each written
// once.
template <bool kStream>
QUANTD_FN void StoreColumns(const CopyTask& copy, const Panel& s,
                            const std::byte (&codes)[kMostRows * kPanel]) {
  std::byte* data = copy.data + s.col * copy.data_line + s.row;
  alignas(64) std::byte columns[16][kMostRows];
  for (int64_t c = 0; c < s.cols; c += 16) {
    for (int64_t r = 0; r < s.rows; r += 16) {
      TransposeBytes(codes + r * s.width + c, s.width, columns[0] + r,
                     kMostRows);
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

// Stores the codes of a partial panel in a copy whose rows are contiguous,
// `pitch` apart.
QUANTD_FN void StoreRows(const Panel& s, const std::byte* codes, std::byte* to,
                         int64_t pitch) {
  to += s.row * pitch + s.col;
  if (pitch == s.width) {
    __builtin_memcpy(to, codes, s.rows * pitch);
    return;
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    __builtin_memcpy(to + r * pitch, codes + r * s.width, s.cols);
  }
}

// Calls fill(out) to encode a panel. Complete rows are encoded directly to
// their destination; all other codes are copied to it afterwards. `rows` is the
// rowwise copy, if kRows. kStreamColumns applies to codes that are stored
// column by column.
template <bool kStreamColumns, bool kRows, typename Fill>
QUANTD_FN void EmitPanel(const CopyTask& copy, const CopyTask* rows,
                         const Panel& s, Fill fill) {
  alignas(64) std::byte codes[kMostRows * kPanel];
  alignas(64) std::byte row_codes[kRows ? kMostRows * kPanel : 1];
  const bool whole = s.cols == kPanel;
  const bool by_rows = copy.data_position != 1;
  Codes out = {codes, kPanel, row_codes, kPanel};
  if (whole && by_rows) {
    out.to = copy.data + s.row * copy.data_position + s.col;
    out.pitch = copy.data_position;
  }
  if (whole && kRows) {
    out.rows = rows->data + s.row * rows->data_line + s.col;
    out.rows_pitch = rows->data_line;
  }
  fill(out);
  if (!by_rows) StoreColumns<kStreamColumns>(copy, s, codes);
  if (whole) return;
  if (by_rows) StoreRows(s, codes, copy.data, copy.data_position);
  if (kRows) StoreRows(s, row_codes, rows->data, rows->data_line);
}

// The stores that bypass the caches.
struct Streams {
  bool rows;     // stores of codes that are stored row by row
  bool columns;  // stores of all other codes
};
inline Streams StreamsOf(const CopyTask& copy, const CopyTask* rows) {
  const bool by_rows = copy.data_position != 1;
  if (rows != nullptr) {
    return {MayStream(rows->data, rows->data_line, rows->lines, kFp8Step),
            !by_rows && MayStream(copy.data, copy.data_line, copy.lines, 64)};
  }
  return {by_rows && MayStream(copy.data, copy.data_position, copy.positions,
                               kFp8Step),
          !by_rows && MayStream(copy.data, copy.data_line, copy.lines, 64)};
}

// Calls fn.operator()<kMantissa, kStream, kStreamColumns, kRows>().
template <typename Fn>
QUANTD_FN void ForStreams(DType element, Streams streams, bool rows, Fn fn) {
  const auto of = [&]<int kMantissa>() {
    if (rows) {
      streams.rows&& streams.columns
          ? fn.template operator()<kMantissa, true, true, true>()
          : fn.template operator()<kMantissa, false, false, true>();
    } else if (streams.columns) {
      fn.template operator()<kMantissa, false, true, false>();
    } else if (streams.rows) {
      fn.template operator()<kMantissa, true, false, false>();
    } else {
      fn.template operator()<kMantissa, false, false, false>();
    }
  };
  element == DType::kE4M3 ? of.template operator()<3>()
                          : of.template operator()<2>();
  if (streams.rows || streams.columns) StreamFence();
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_FP8_COLUMNS_H_
