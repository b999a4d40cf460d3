// Quantization of any format, tile by tile. Leaf rule: see tiles.cc.
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

// Adds the errors of the first `lanes` lines.
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

// Stores sixteen codes of `lanes` <= W lines from position `p` on.
QUANTD_FN void StoreSixteen(const EncodeParams& params, const CopyTask& copy,
                            int64_t line, int64_t p, const U* words,
                            int64_t lanes) {
  const bool half = params.element == DType::kE2M1x2;
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
    if (lanes == W) {
      QUANTD_UNROLL
      for (int l = 0; l < W; ++l) {
        __builtin_memcpy(to + l * copy.data_line, block + 8 * l, 8);
      }
      return;
    }
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

// Stores the scales that a block has in each of `lanes` lines.
QUANTD_FN void StoreScales(const EncodeParams& params, const CopyTask& copy,
                           int64_t line, int64_t block, U stored,
                           int64_t lanes) {
  if (copy.scale == nullptr) return;  // Another slice of the line writes it.
  const size_t size = SizeOf(params.scale);
  if (size == 2) stored = ScaleInType<L>(params.scale, stored);
  if (size == 1 && !copy.swizzled && copy.scale_lines == 1) {
    const L::U8 codes = L::LowBytes(stored);
    std::byte* to = copy.scale + ScaleIndex(copy, line, block);
    if (copy.scale_line == 1) {
      __builtin_memcpy(to, &codes, lanes);
      return;
    }
    for (int64_t i = 0; i < lanes; ++i, to += copy.scale_line) {
      *to = static_cast<std::byte>(codes[i]);
    }
    return;
  }
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t at = ScaleIndex(copy, line + i, block);
    const uint32_t value = stored[i];
    if (size == 4) {
      __builtin_memcpy(copy.scale + at * 4, &value, 4);
    } else if (size == 2) {
      __builtin_memcpy(copy.scale + at * 2, &value, 2);
    } else {
      copy.scale[at] = static_cast<std::byte>(value);
    }
  }
}

template <bool kOther>
QUANTD_FN LineScale<L> ScalesOfLines(const EncodeParams& params,
                                     const CopyTask& copy, int64_t line,
                                     int64_t lanes) {
  float amax[W] = {};
  if (copy.amax) {
    for (int64_t i = 0; i < lanes; ++i) {
      amax[i] = copy.amax[(line + i) * copy.amax_line];
    }
  }
  F a;
  __builtin_memcpy(&a, amax, sizeof(a));
  const float scale = copy.tensor_scale ? *copy.tensor_scale : 1.0f;
  return MakeLineScale<L, kOther>(params, a, L::Broadcast(scale));
}

// Where EncodeSpan leaves what it makes of `lanes` lines from `line` on.
struct TileOut {
  const EncodeParams& params;
  const CopyTask& copy;
  const SquareScales* squares;
  ErrorSums* errors;
  bool columnwise;
  int64_t line;
  int64_t lanes;

  QUANTD_FN U Settled(int64_t position) const {
    // Lines of a lane group lie in one square: W divides 16.
    const int64_t side = params.block == 16 ? 16 : 128;
    const int64_t r = (columnwise ? position : line) % kTile / side;
    const int64_t c = (columnwise ? line : position) % kTile / side;
    return U{} + squares->stored[r][c];
  }
  QUANTD_FN void StoreScale(int64_t block, U stored) const {
    StoreScales(params, copy, line, block, stored, lanes);
  }
  QUANTD_FN void StoreCodes(int64_t position, const U* words) const {
    StoreSixteen(params, copy, line, position, words, lanes);
  }
  QUANTD_FN bool counts() const { return errors != nullptr; }
  QUANTD_FN void Count(const RunErrors<L>& run) const {
    AddErrors(run, lanes, errors);
  }
};

// Whether a format of that scaling has squares.
constexpr bool HasSquares(Scaling scaling) {
  for (const FormatSpec& format : kFormats) {
    if (format.scaling == scaling && format.square) return true;
  }
  return false;
}

// Encodes W lines from `line` on, over the tile's positions. What decides most
// is known to the compiler; kOther is Numerics::other.
template <Scaling kScaling, DType kElement, bool kStochastic, bool kOther>
void EncodeLines(const TileJob& job, Tile& tile, int64_t line, int64_t lanes) {
  EncodeParams e = job.params;
  e.scaling = kScaling;
  e.element = kElement;
  e.stochastic = kStochastic;
  if constexpr (!kOther) {
    const bool codes = kScaling == Scaling::kNvfp4 || kScaling == Scaling::kMx;
    e.scale = codes ? DType::kE8M0 : DType::kF32;  // of that size
  }
  e.square = e.square && HasSquares(kScaling);
  const CopyTask& copy = job.copy;
  const LineScale<L> scales = ScalesOfLines<kOther>(e, copy, line, lanes);
  const TileOut out = {e,    copy, job.squares, job.errors, job.columnwise,
                       line, lanes};
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
    EncodeSpan<L, kOther>(
        e, {copy, job.columnwise, copy.rotation > 0, job.group.row, line, p},
        scales, v, n, out);
  }
}

using EncodeFn = void (*)(const TileJob&, Tile&, int64_t, int64_t);

// Of two-to-a-byte codes, which alone may be stochastic.
template <Scaling kScaling>
EncodeFn EncodeE2M1Of(const EncodeParams& e) {
  constexpr DType kElement = DType::kE2M1x2;
  if (e.numerics.other) return EncodeLines<kScaling, kElement, false, true>;
  return e.stochastic ? EncodeLines<kScaling, kElement, true, false>
                      : EncodeLines<kScaling, kElement, false, false>;
}

// Of FP8 codes. No other library's are E5M2.
template <Scaling kScaling>
EncodeFn EncodeFp8Of(const EncodeParams& e) {
  if (e.numerics.other) {
    return EncodeLines<kScaling, DType::kE4M3, false, true>;
  }
  return e.element == DType::kE4M3
             ? EncodeLines<kScaling, DType::kE4M3, false, false>
             : EncodeLines<kScaling, DType::kE5M2, false, false>;
}

EncodeFn EncodeOf(const EncodeParams& e) {
  switch (e.scaling) {
    case Scaling::kNvfp4:
      return EncodeE2M1Of<Scaling::kNvfp4>(e);
    case Scaling::kMx:
      return e.element == DType::kE2M1x2 ? EncodeE2M1Of<Scaling::kMx>(e)
                                         : EncodeFp8Of<Scaling::kMx>(e);
    case Scaling::kBlock:
      return EncodeFp8Of<Scaling::kBlock>(e);
    case Scaling::kTensor:
      return EncodeFp8Of<Scaling::kTensor>(e);
    case Scaling::kChannel:
      break;
  }
  return EncodeFp8Of<Scaling::kChannel>(e);
}

// Maxima of a square of the tile, its lanes reduced.
void FindSquareMaxima(Tile& tile, int64_t r, int64_t c, int64_t side,
                      uint32_t* max, uint32_t* clean) {
  *max = *clean = 0;
  for (int64_t l = 0; l < side; l += W) {
    F v[128];
    LoadSpan(tile, true, c + l, r, static_cast<int>(side), v);
    U a, b;
    FindMaxima<L>(v, static_cast<int>(side), &a, &b);
    for (int i = 0; i < W; ++i) {
      *max = a[i] > *max ? a[i] : *max;
      *clean = b[i] > *clean ? b[i] : *clean;
    }
  }
}

// The error of a 16 x 16 square under a scale.
float SquareError(const EncodeParams& e, const LineScale<L>& scales, Tile& tile,
                  int64_t r, int64_t c, uint32_t code) {
  float sums[kBlock];
  for (int l = 0; l < kBlock; l += W) {
    F v[kBlock];
    LoadSpan(tile, false, r + l, c, kBlock, v);
    const F sum = FourOverSixError<L>(e, scales, v, U{} + code);
    __builtin_memcpy(sums + l, &sum, sizeof(sum));
  }
  return FourOverSixErrorOfSquare(sums);
}

// Settles the scales of the squares that hold some of the tile's rows x cols.
template <bool kOther>
void ScaleSquares(const EncodeParams& e, const CopyTask& copy, Tile& tile,
                  int64_t rows, int64_t cols, SquareScales* out) {
  const int64_t side = e.block;
  const float amax = copy.amax ? *copy.amax : 0.0f;
  const auto line = MakeLineScale<Scalar, kOther>(e, amax, 1.0f);
  const auto lines = MakeLineScale<L, kOther>(e, L::Broadcast(amax), F{});
  for (int64_t r = 0; r < rows; r += side) {
    for (int64_t c = 0; c < cols; c += side) {
      uint32_t max, clean;
      FindSquareMaxima(tile, r, c, side, &max, &clean);
      out->stored[r / side][c / side] = ScaleOfSquare<Scalar, kOther>(
          e, line, max, clean, [&](int, uint32_t code) {
            return SquareError(e, lines, tile, r, c, code);
          });
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
  if (choice.rowwise == EncodeKernel::kNvfp4 ||
      choice.columnwise == EncodeKernel::kNvfp4) {
    return QuantizeNvfp4(e, group, first, last, seen);
  }
  if (choice.rowwise == EncodeKernel::kFp8Squares ||
      choice.columnwise == EncodeKernel::kFp8Squares) {
    return QuantizeFp8Squares(e, group, first, last, seen);
  }
  // Copies that a tuned function writes come first, both for some rows that
  // stay in the cache.
  const bool rows = choice.rowwise == EncodeKernel::kFp8Rows;
  const bool columns = choice.columnwise == EncodeKernel::kFp8Columns;
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
          (e.numerics.other
               ? ScaleSquares<true>
               : ScaleSquares<false>)(e, copy, tile,
                                      Least(kTile, group.rows - row),
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
