// Dequantization of every format, tile by tile. The leaf rule of tiles.cc
// applies.
#include "kernels/arith/profile/line_factors.h"
#include "kernels/cpu/isa/lines.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// Loads sixteen codes of each of `lanes` lines from position `p` on, with zeros
// after the copy's end.
void LoadSomeCodes(const CopyTask& copy, bool half, int64_t line, int64_t p,
                   int64_t lanes, U* words) {
  const int64_t count = Least(16, copy.padded - p);
  uint32_t w[4][W] = {};
  if (copy.data_position != 1) {
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* from = copy.data + (p + i) * copy.data_position + line;
      for (int64_t l = 0; l < lanes; ++l) {
        w[i / 4][l] |= static_cast<uint32_t>(from[l]) << (8 * (i % 4));
      }
    }
  } else {
    const std::byte* from =
        copy.data + line * copy.data_line + (half ? p / 2 : p);
    const int64_t bytes = half ? count / 2 : count;
    for (int64_t l = 0; l < lanes; ++l) {
      uint32_t sixteen[4] = {};
      __builtin_memcpy(sixteen, from + l * copy.data_line, bytes);
      for (int i = 0; i < 4; ++i) w[i][l] = sixteen[i];
    }
  }
  __builtin_memcpy(words, w, sizeof(w));
}

// Loads the codes of W lines, each with sixteen left.
QUANTD_FN void LoadCodes(const CopyTask& copy, bool half, int64_t line,
                         int64_t p, U (&words)[4]) {
  if (copy.data_position != 1) {
    const std::byte* from = copy.data + p * copy.data_position + line;
    QUANTD_UNROLL
    for (int w = 0; w < 4; ++w) {
      words[w] = U{};
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        L::U8 codes;
        __builtin_memcpy(&codes, from, W);
        words[w] |= L::WidenBytes(codes) << (8 * i);
        from += copy.data_position;
      }
    }
    return;
  }
  const std::byte* from =
      copy.data + line * copy.data_line + (half ? p / 2 : p);
  if (!half) {
    LoadWords<W>(from, static_cast<size_t>(copy.data_line), 0, words);
    return;
  }
  typedef uint64_t Wide __attribute__((vector_size(4 * W)));
  Wide pairs[2];  // for the lower and the upper lanes
  QUANTD_UNROLL
  for (int l = 0; l < W; ++l) {
    uint64_t eight;
    __builtin_memcpy(&eight, from + l * copy.data_line, 8);
    pairs[l / (W / 2)][l % (W / 2)] = eight;
  }
  SplitPairs<W>(reinterpret_cast<U>(pairs[0]), reinterpret_cast<U>(pairs[1]),
                &words[0], &words[1]);
}

// Loads scales: codes, or the bits of fp32.
U LoadScales(const CopyTask& copy, DType type, int64_t line, int64_t block,
             int64_t lanes) {
  const auto size = static_cast<int64_t>(SizeOf(type));
  U stored{};
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t at = ScaleIndex(copy, line + i, block);
    uint32_t value = 0;
    __builtin_memcpy(&value, copy.scale + at * size, size);
    stored[i] = value;
  }
  return ScaleFromType<L>(type, stored);
}

// Rounds to the output type, as the input of the inverse rotation must be.
void RoundTo(DType dtype, F* v, int n) {
  if (dtype == DType::kF32) return;
  for (int i = 0; i < n; ++i) {
    v[i] = dtype == DType::kBF16 ? DecodeBf16<L>(EncodeBf16<L>(v[i]))
                                 : DecodeF16<L>(EncodeF16<L>(v[i]));
  }
}

// Decodes W lines from `line` on, over the positions of the tile at `origin`.
template <DType kElement>
void DecodeLines(const DequantizeParams& d, const CopyTask& copy, int64_t line,
                 int64_t lanes, int64_t origin, int64_t local, Tile* tile) {
  constexpr bool half = kElement == DType::kE2M1x2;
  float amaxes[W] = {};
  if (copy.amax) {
    for (int64_t i = 0; i < lanes; ++i) {
      amaxes[i] = copy.amax[(line + i) * copy.amax_line];
    }
  }
  F amax;
  __builtin_memcpy(&amax, amaxes, sizeof(amax));
  const LineFactors<L> factors(d.scaling, d.numerics, d.output, d.range, amax);
  const int block = d.block > 0 ? d.block : 16;
  const int n = block > copy.rotation ? block : copy.rotation;
  const int64_t end = Least(origin + kTile, copy.padded);
  for (int64_t p = origin; p < end; p += n) {
    F v[128];
    F factor{};
    for (int i = 0; i < n; i += 16) {
      if (p + i >= end) {
        for (int k = 0; k < 16; ++k) v[i + k] = F{};
        continue;
      }
      if (i % block == 0) {
        const int64_t at = d.block > 0 ? (p + i) / block : 0;
        factor = factors.Of(LoadScales(copy, d.scale, line, at, lanes));
      }
      U words[4];
      if (lanes == W && p + i + 16 <= copy.padded) {
        LoadCodes(copy, half, line, p + i, words);
      } else {
        LoadSomeCodes(copy, half, line, p + i, lanes, words);
      }
      if (d.numerics.high_first) {
        for (int w = 0; w < 2; ++w) words[w] = SwapNibbles<L>(words[w]);
      }
      DecodeSixteen<L>(kElement, words, v + i);
      QUANTD_UNROLL
      for (int k = 0; k < 16; ++k) v[i + k] = v[i + k] * factor;
    }
    if (copy.rotation > 0) {
      RoundTo(d.output, v, n);
      for (int i = 0; i < n; i += copy.rotation) {
        RotateInverseOf<L>(v + i, copy.rotation, copy.signs);
      }
    }
    StoreSpan(v, d.columnwise, local, p - origin, n, tile);
  }
}

}  // namespace

void DequantizeLines(const DequantizeParams& d, const GroupTask& group,
                     int64_t first, int64_t last) {
  const CopyTask& copy = d.columnwise ? group.columnwise : group.rowwise;
  // For decoding, a group's `x` is its output.
  std::byte* out = const_cast<std::byte*>(group.x);
  const auto decode = d.element == DType::kE2M1x2 ? DecodeLines<DType::kE2M1x2>
                      : d.element == DType::kE4M3 ? DecodeLines<DType::kE4M3>
                                                  : DecodeLines<DType::kE5M2>;
  Tile tile;
  for (int64_t row = first; row < last; row += kTile) {
    for (int64_t col = 0; col < d.cols; col += kTile) {
      const int64_t begin = d.columnwise ? col : row;
      const int64_t end = Least(begin + kTile, copy.lines);
      for (int64_t line = begin; line < end; line += W) {
        decode(d, copy, line, Least(W, end - line), d.columnwise ? row : col,
               line - begin, &tile);
      }
      StoreTile(
          tile, Least(kTile, last - row), Least(kTile, d.cols - col), d.output,
          d.cols,
          out + (row * d.cols + col) * static_cast<int64_t>(SizeOf(d.output)));
    }
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
