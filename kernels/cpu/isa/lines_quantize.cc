// Quantization of any format, tile by tile. Leaf rule: see tiles.cc.
#include "kernels/arith/decode.h"
#include "kernels/arith/encode.h"
#include "kernels/arith/run_errors.h"
#include "kernels/cpu/isa/lines.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// Stored scales of the 16 x 16 blocks of a tile, or of its one square.
struct SquareScales {
  uint32_t stored[8][8];
};

struct TileJob {
  const EncodeParams& params;
  const GroupTask& group;
  const CopyTask& copy;
  bool columnwise;
  int64_t row;  // of the tile
  int64_t col;
  const SquareScales* squares;  // nullptr: blocks of one line
  ErrorSums* errors;            // nullptr: not wanted
};

// Adds the first `lanes` of them.
void AddErrors(const RunErrors<L>& run, int64_t lanes, ErrorSums* sums) {
  for (int64_t l = 0; l < lanes; ++l) {
    sums->elements += run.elements[l];
    sums->clipped += run.clipped[l];
    sums->flushed += run.flushed[l];
    const uint32_t error = run.max_error[l];
    sums->max_error = error > sums->max_error ? error : sums->max_error;
    const SquareTerm signal =
        TermOf(run.signal.bits[l], run.signal.exponent[l]);
    const SquareTerm noise = TermOf(run.noise.bits[l], run.noise.exponent[l]);
    sums->signal.bins[signal.bin] += signal.value;
    sums->noise.bins[noise.bin] += noise.value;
  }
}

// The first `count` <= W lines of sixteen codes from position `p` on.
QUANTD_FN void StoreCodes(const TileJob& job, int64_t line, int64_t p,
                          const U* words, int64_t lanes) {
  const CopyTask& copy = job.copy;
  const bool half = job.params.element == DType::kE2M1x2;
  const int64_t count = Least(16, copy.padded - p);
  if (copy.data_position != 1) {  // position after position
    for (int64_t i = 0; i < count; ++i) {
      const L::U8 bytes = L::LowBytes(words[i / 4] >> (8 * (i % 4)));
      __builtin_memcpy(copy.data + (p + i) * copy.data_position + line, &bytes,
                       lanes);
    }
    return;
  }
  std::byte* to = copy.data + line * copy.data_line + (half ? p / 2 : p);
  if (!half && count == 16 && lanes == W) {
    U block[4] = {words[0], words[1], words[2], words[3]};
    StoreWords<W>(block, to, copy.data_line, 0);
    return;
  }
  if (half && count == 16) {
    std::byte block[8 * W];
    StorePairs<W>(words[0], words[1], block);
    for (int64_t l = 0; l < lanes; ++l) {
      __builtin_memcpy(to + l * copy.data_line, block + 8 * l, 8);
    }
    return;
  }
  const int64_t bytes = half ? count / 2 : count;
  for (int64_t l = 0; l < lanes; ++l) {
    uint32_t w[4] = {};
    for (int i = 0; i < (half ? 2 : 4); ++i) w[i] = words[i][l];
    __builtin_memcpy(to + l * copy.data_line, w, bytes);
  }
}

QUANTD_FN void StoreScales(const TileJob& job, int64_t line, int64_t block,
                           U stored, int64_t lanes) {
  const CopyTask& copy = job.copy;
  stored = StoredScale<L>(job.params, stored);
  const bool wide = job.params.scaling == Scaling::kBlock;
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t l = line + i;
    // Mostly 1: a division would be the dearest part of it.
    const int64_t at_line = copy.scale_lines == 1 ? l : l / copy.scale_lines;
    const int64_t at =
        copy.swizzled ? SwizzledIndex(l, block, copy.blocks)
                      : at_line * copy.scale_line + block * copy.scale_block;
    const uint32_t value = stored[i];
    if (wide) {
      __builtin_memcpy(copy.scale + at * 4, &value, 4);
    } else {
      copy.scale[at] = static_cast<std::byte>(value);
    }
  }
}

QUANTD_FN LineScale<L> ScalesOfLines(const TileJob& job, int64_t line,
                                     int64_t lanes) {
  const CopyTask& copy = job.copy;
  float amax[W] = {};
  if (copy.amax) {
    for (int64_t i = 0; i < lanes; ++i) {
      amax[i] = copy.amax[(line + i) * copy.amax_line];
    }
  }
  F a;
  __builtin_memcpy(&a, amax, sizeof(a));
  const float scale = copy.tensor_scale ? *copy.tensor_scale : 1.0f;
  return MakeLineScale<L>(job.params, a, L::Broadcast(scale));
}

// The scale of block `b` of the span `v` at line `line`, position `p`.
QUANTD_FN BlockScale<L> ScaleOf(const TileJob& job, const LineScale<L>& scales,
                                const F* v, int64_t line, int64_t p, int n) {
  const EncodeParams& params = job.params;
  if (job.squares) {
    // Lines of a lane group lie in one square: W divides 16.
    const int64_t side = params.block == 16 ? 16 : 128;
    const int64_t r = (job.columnwise ? p : line) % kTile / side;
    const int64_t c = (job.columnwise ? line : p) % kTile / side;
    return UnderScale<L>(params, scales, U{} + job.squares->stored[r][c]);
  }
  U max{};
  U clean{};
  if (params.scaling != Scaling::kTensor) Maxima<L>(v, n, &max, &clean);
  if (params.four_over_six != FourOverSix::kOff) {
    return FourOverSixScale<L>(params, scales, v, max, clean);
  }
  return MakeBlockScale<L>(params, scales, max, clean);
}

// Random bytes of W lines from position `p` on, the first in the lowest byte.
QUANTD_FN RandomBytes<L> Draw(const TileJob& job, int64_t line, int64_t p) {
  const EncodeParams& e = job.params;
  const int64_t rows = e.row_offset + job.group.row;
  const RandomBytes<L> drawn =
      job.columnwise ? DrawBytes<L>(e, true, e.column_offset + line, rows + p)
                     : DrawBytes<L>(e, false, rows + line, e.column_offset + p);
  RandomBytes<L> bytes;
  bytes.shift = 0;
  const int word = drawn.shift / 4;
  const int bits = drawn.shift % 4 * 8;
  for (int i = 0; i < 4; ++i) {
    bytes.words[i] = drawn.words[word + i];
    if (bits != 0) {
      bytes.words[i] = bytes.words[i] >> bits | drawn.words[word + i + 1]
                                                    << (32 - bits);
    }
  }
  return bytes;
}

void CountErrors(const TileJob& job, const LineScale<L>& scales, const F* v,
                 const BlockScale<L>& block, const U* words, int64_t p,
                 int64_t lanes) {
  const CopyTask& copy = job.copy;
  const EncodeParams& e = job.params;
  // kBlock and kTensor decode by the inverse of their scale.
  const U stored = e.scaling == Scaling::kTensor
                       ? L::Bits(L::Broadcast(1.0f) / scales.scale)
                       : StoredScale<L>(e, block.stored);
  const F factor = DecodeFactor<L>(e.scaling, e.f6, scales.amax, stored);
  F d[16];
  DecodeSixteen<L>(e.element, words, d);
  QUANTD_UNROLL
  for (int i = 0; i < 16; ++i) d[i] = d[i] * factor;
  const int64_t end = copy.rotation > 0 ? copy.padded : copy.positions;
  AddErrors(ErrorsOfRun<L>(v, block.m, d, ClipBits(e.element), end - p), lanes,
            job.errors);
}

// W lines from `line` on, over the tile's positions. What decides most is known
// to the compiler.
template <Scaling kScaling, DType kElement, bool kStochastic>
void EncodeLines(const TileJob& any, Tile& tile, int64_t line, int64_t lanes) {
  EncodeParams e = any.params;
  e.scaling = kScaling;
  e.element = kElement;
  e.stochastic = kStochastic;
  const TileJob job = {e,       any.group, any.copy,    any.columnwise,
                       any.row, any.col,   any.squares, any.errors};
  const CopyTask& copy = job.copy;
  const LineScale<L> scales = ScalesOfLines(job, line, lanes);
  // Positions of one scale; of a tensor's, any that are convenient.
  const int block = e.block > 0 ? e.block : 16;
  const int n = block > copy.rotation ? block : copy.rotation;
  const int64_t origin = job.columnwise ? job.row : job.col;
  const int64_t local = line - (job.columnwise ? job.col : job.row);
  const int64_t end = Least(origin + kTile, copy.padded);
  for (int64_t p = origin; p < end; p += n) {
    F v[128];
    LoadSpan(tile, job.columnwise, local, p - origin, n, v);
    if (copy.rotation > 0) RotateSpan(v, n, copy.rotation, copy.signs);
    for (int b = 0; b < n && p + b < end; b += block) {
      const BlockScale<L> scale =
          ScaleOf(job, scales, v + b, line, p + b, block);
      if (e.scaling != Scaling::kTensor) {
        StoreScales(job, line, (p + b) / block, scale.stored, lanes);
      }
      for (int i = b; i < b + block && p + i < end; i += 16) {
        U words[4];
        RandomBytes<L> random;
        if (e.stochastic) random = Draw(job, line, p + i);
        EncodeSixteen<L>(e, v + i, scale.m, e.stochastic ? &random : nullptr,
                         words);
        if (e.element == DType::kE2M1x2 && copy.rotation == 0) {
          KeepCodes<L>(copy.positions - (p + i), words);
        }
        StoreCodes(job, line, p + i, words, lanes);
        if (job.errors) {
          CountErrors(job, scales, v + i, scale, words, p + i, lanes);
        }
      }
    }
  }
}

using EncodeFn = void (*)(const TileJob&, Tile&, int64_t, int64_t);

EncodeFn EncodeOf(const EncodeParams& e) {
  const bool e4m3 = e.element == DType::kE4M3;
  switch (e.scaling) {
    case Scaling::kNvfp4:
      return e.stochastic ? EncodeLines<Scaling::kNvfp4, DType::kE2M1x2, true>
                          : EncodeLines<Scaling::kNvfp4, DType::kE2M1x2, false>;
    case Scaling::kMx:
      if (e.element == DType::kE2M1x2) {
        return e.stochastic ? EncodeLines<Scaling::kMx, DType::kE2M1x2, true>
                            : EncodeLines<Scaling::kMx, DType::kE2M1x2, false>;
      }
      return e4m3 ? EncodeLines<Scaling::kMx, DType::kE4M3, false>
                  : EncodeLines<Scaling::kMx, DType::kE5M2, false>;
    case Scaling::kBlock:
      return e4m3 ? EncodeLines<Scaling::kBlock, DType::kE4M3, false>
                  : EncodeLines<Scaling::kBlock, DType::kE5M2, false>;
    case Scaling::kTensor:
      break;
  }
  return e4m3 ? EncodeLines<Scaling::kTensor, DType::kE4M3, false>
              : EncodeLines<Scaling::kTensor, DType::kE5M2, false>;
}

// Maxima of a square of the tile, its lanes reduced.
void MaximaOfSquare(Tile& tile, int64_t r, int64_t c, int64_t side,
                    uint32_t* max, uint32_t* clean) {
  *max = *clean = 0;
  for (int64_t l = 0; l < side; l += W) {
    F v[128];
    LoadSpan(tile, true, c + l, r, static_cast<int>(side), v);
    U a, b;
    Maxima<L>(v, static_cast<int>(side), &a, &b);
    for (int i = 0; i < W; ++i) {
      *max = a[i] > *max ? a[i] : *max;
      *clean = b[i] > *clean ? b[i] : *clean;
    }
  }
}

// The error of a 16 x 16 block under a scale: rows in index order, then a
// halving tree over the rows.
float SquareError(const EncodeParams& e, const LineScale<L>& scales, Tile& tile,
                  int64_t r, int64_t c, uint32_t code) {
  float sums[16];
  for (int l = 0; l < 16; l += W) {
    F v[16];
    LoadSpan(tile, false, r + l, c, 16, v);
    const F sum = FourOverSixError<L>(e, scales, v, U{} + code);
    __builtin_memcpy(sums + l, &sum, sizeof(sum));
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

// Of the squares that hold some of the tile's rows x cols.
void ScaleSquares(const EncodeParams& e, const CopyTask& copy, Tile& tile,
                  int64_t rows, int64_t cols, SquareScales* out) {
  const int64_t side = e.block;
  const float amax = copy.amax ? *copy.amax : 0.0f;
  const auto line = MakeLineScale<Scalar>(e, amax, 1.0f);
  const auto lines = MakeLineScale<L>(e, L::Broadcast(amax), F{});
  for (int64_t r = 0; r < rows; r += side) {
    for (int64_t c = 0; c < cols; c += side) {
      uint32_t max, clean;
      MaximaOfSquare(tile, r, c, side, &max, &clean);
      uint32_t stored = MakeBlockScale<Scalar>(e, line, max, clean).stored;
      if (e.four_over_six != FourOverSix::kOff &&
          !(e.propagate && max > kInfBits)) {
        uint32_t four, six;
        FourOverSixScales<Scalar>(line, clean, &four, &six);
        stored = SquareError(e, lines, tile, r, c, four) <
                         SquareError(e, lines, tile, r, c, six)
                     ? four
                     : six;
      }
      out->stored[r / side][c / side] = stored;
    }
  }
}

bool SameAmax(const CopyTask& a, const CopyTask& b) {
  return a.amax && b.amax && Scalar::Bits(*a.amax) == Scalar::Bits(*b.amax);
}

}  // namespace

void QuantizeLines(const EncodeParams& e, cpu::EncodeChoice choice,
                   const GroupTask& group, int64_t first, int64_t last,
                   cpu::Maxima* seen, ErrorSums* row_errors,
                   ErrorSums* col_errors) {
  using cpu::EncodeKernel;
  const cpu::Matrix x = {group.x, e.input, group.rows, e.cols};
  if (choice.rowwise == EncodeKernel::kFp8Squares ||
      choice.columnwise == EncodeKernel::kFp8Squares) {
    return QuantizeFp8Squares(e, group, first, last, seen);
  }
  // Copies with a function of their own are made first, both for some rows that
  // stay in the cache.
  const bool rows = choice.rowwise == EncodeKernel::kFp8;
  const bool columns = choice.columnwise == EncodeKernel::kFp8;
  const bool same =
      rows && columns && SameFp8Codes(e, group.rowwise, group.columnwise);
  const int64_t step = rows && columns && e.block == 32 ? 32 : kTile;
  for (int64_t row = first; row < last && (rows || columns); row += step) {
    const int64_t end = Least(row + step, last);
    if (rows && !same) QuantizeFp8Rows(e, group, row, end, seen);
    if (columns) QuantizeFp8Columns(e, group, same, row, end, seen);
  }
  const bool wanted[2] = {choice.rowwise == EncodeKernel::kLines,
                          choice.columnwise == EncodeKernel::kLines};
  if (!wanted[0] && !wanted[1]) return;
  const EncodeFn encode = EncodeOf(e);
  // Squares are those of both copies where one amax serves both.
  const bool shared =
      group.rowwise.data && (e.scaling != Scaling::kNvfp4 ||
                             SameAmax(group.rowwise, group.columnwise));
  Tile tile;
  for (int64_t row = first; row < last; row += kTile) {
    for (int64_t col = 0; col < e.cols; col += kTile) {
      LoadTile(x, row, col, &tile, seen);
      SquareScales squares;
      for (bool columnwise : {false, true}) {
        const CopyTask& copy = columnwise ? group.columnwise : group.rowwise;
        if (!wanted[columnwise]) continue;
        if (e.square && !(columnwise && shared)) {
          ScaleSquares(e, copy, tile, Least(kTile, group.rows - row),
                       Least(kTile, e.cols - col), &squares);
        }
        const TileJob job = {e,
                             group,
                             copy,
                             columnwise,
                             row,
                             col,
                             e.square ? &squares : nullptr,
                             columnwise ? col_errors : row_errors};
        const int64_t begin = columnwise ? col : row;
        const int64_t end = Least(begin + kTile, copy.lines);
        for (int64_t line = begin; line < end; line += W) {
          encode(job, tile, line, Least(W, end - line));
        }
      }
    }
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
