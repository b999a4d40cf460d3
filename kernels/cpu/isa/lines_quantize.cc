// Quantization of every format, tile by tile. The leaf rule of tiles.cc
// applies.
#include "kernels/cpu/isa/lines_quantize.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

// The stored scales of a tile's 16 x 16 squares, or of its single square.
struct SquareScales {
  uint32_t stored[8][8];
};

struct TileJob {
  const EncodeParams& params;
  const GroupTask& group;
  const CopyTask& copy;
  bool columnwise;
  bool stream;  // stores codes of whole tiles past the caches
  int64_t row;  // the tile's first row
  int64_t col;
  const SquareScales* squares;  // nullptr: blocks of a single line
  ErrorSums* errors;            // nullptr: no statistics
  // Collects the codes of a whole tile of a copy that is not transposed;
  // nullptr for other copies.
  std::byte (*in_place)[kTile];
};

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

// The output of EncodeSpan for `lanes` lines from `line` on.
struct TileOut {
  const EncodeParams& params;
  const CopyTask& copy;
  const SquareScales* squares;
  ErrorSums* errors;
  LineErrors* line_errors;
  LineCodes codes;
  bool columnwise;
  int64_t line;
  int64_t lanes;

  QUANTD_FN U Settled(int64_t position) const {
    // All lines of a lane group are in the same square, since W divides 16.
    const int64_t side = params.block == 16 ? 16 : 128;
    const int64_t r = (columnwise ? position : line) % kTile / side;
    const int64_t c = (columnwise ? line : position) % kTile / side;
    return U{} + squares->stored[r][c];
  }
  QUANTD_FN void StoreScale(int64_t block, U stored) const {
    StoreScales(params, copy, line, block, stored, lanes);
  }
  QUANTD_FN void StoreCodes(int64_t position, const U* words) const {
    StoreSixteen(params, copy, codes, position, words, lanes);
  }
  QUANTD_FN bool counts() const { return errors != nullptr; }
  QUANTD_FN void Count(const RunErrors<L>& run) const {
    LineErrors& all = *line_errors;
    all.elements += run.elements;
    all.clipped += run.clipped;
    all.flushed += run.flushed;
    all.max_error = L::Max(all.max_error, run.max_error);
    AddSquares(run.signal, lanes, &errors->signal);
    AddSquares(run.noise, lanes, &errors->noise);
  }
};

// Whether a format of that scaling has squares.
constexpr bool HasSquares(Scaling scaling) {
  for (const FormatSpec& format : kFormats) {
    if (format.scaling == scaling && format.square) return true;
  }
  return false;
}

// Encodes W lines from `line` on, over the tile's positions. The most important
// choices are template arguments; kOther is Numerics::other.
template <Scaling kScaling, DType kElement, bool kStochastic, bool kOther>
void EncodeLines(const TileJob& job, Tile& tile, int64_t line, int64_t lanes) {
  EncodeParams e = job.params;
  e.scaling = kScaling;
  e.element = kElement;
  e.stochastic = kStochastic;
  if constexpr (!kOther) {
    const bool codes = kScaling == Scaling::kNvfp4 || kScaling == Scaling::kMx;
    e.scale = codes ? DType::kE8M0 : DType::kF32;  // any type of the same size
  }
  e.square = e.square && HasSquares(kScaling);
  const CopyTask& copy = job.copy;
  const LineScale<L> scales = ScalesOfLines<kOther>(e, copy, line, lanes);
  LineErrors errors;
  const int64_t origin = job.columnwise ? job.row : job.col;
  // Codes of whole tiles fill cache lines, which are stored whole.
  constexpr int kBytes =
      static_cast<int>(kTile) / (kElement == DType::kE2M1x2 ? 2 : 1);
  alignas(64) std::byte stage[W][kBytes];
  const bool by_lines = copy.data_position == 1;
  const bool staged = by_lines && lanes == W && origin + kTile <= copy.padded;
  std::byte* const home =
      copy.data + line * copy.data_line +
      (by_lines ? origin * kBytes / kTile : origin * copy.data_position);
  const int64_t local = line - (job.columnwise ? job.col : job.row);
  LineCodes codes = {home, by_lines ? copy.data_line : copy.data_position,
                     origin};
  if (staged) codes = {stage[0], kBytes, origin};
  if (job.in_place != nullptr) codes = {job.in_place[0] + local, kTile, origin};
  const TileOut out = {e,     copy,           job.squares, job.errors, &errors,
                       codes, job.columnwise, line,        lanes};
  // Positions that share a scale; any number if the tensor has one scale.
  const int block = e.block > 0 ? e.block : 16;
  const int n = block > copy.rotation ? block : copy.rotation;
  const int64_t end = Least(origin + kTile, copy.padded);
  for (int64_t p = origin; p < end; p += n) {
    F v[128];
    LoadSpan(tile, job.columnwise, local, p - origin, n, v);
    if (copy.rotation > 0) RotateSpan(v, n, copy.rotation, copy.signs);
    EncodeSpan<L, kOther>(
        e, {copy, job.columnwise, copy.rotation > 0, job.group.row, line, p},
        scales, v, n, out);
  }
  for (int l = 0; staged && l < W; ++l) {
    std::byte* const to = home + l * copy.data_line;
    job.stream ? StoreBytes<true, kBytes>(stage[l], to)
               : StoreBytes<false, kBytes>(stage[l], to);
  }
  if (job.errors != nullptr) AddErrors(errors, lanes, job.errors);
}

using EncodeFn = void (*)(const TileJob&, Tile&, int64_t, int64_t);

// The encoder of two codes per byte; only these may be rounded stochastically.
template <Scaling kScaling>
EncodeFn EncodeE2M1Of(const EncodeParams& e) {
  constexpr DType kElement = DType::kE2M1x2;
  if (e.numerics.other) return EncodeLines<kScaling, kElement, false, true>;
  return e.stochastic ? EncodeLines<kScaling, kElement, true, false>
                      : EncodeLines<kScaling, kElement, false, false>;
}

// The encoder of FP8 codes. Profiles other than TE have no E5M2.
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

// The maxima of a square of the tile, over all lanes.
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

// Computes the scales of the squares that contain any of the tile's rows x
// cols.
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
  if (choice.rowwise == EncodeKernel::kNvfp4Squares ||
      choice.columnwise == EncodeKernel::kNvfp4Squares) {
    return QuantizeNvfp4Squares(e, group, first, last, seen);
  }
  if (choice.rowwise == EncodeKernel::kFp8Squares ||
      choice.columnwise == EncodeKernel::kFp8Squares) {
    return QuantizeFp8Squares(e, group, first, last, seen);
  }
  // Tuned functions write their copies first. If both copies have one, they
  // alternate every few rows, whose input stays in the cache.
  const bool rows = choice.rowwise == EncodeKernel::kFp8Rows;
  const bool columns = choice.columnwise == EncodeKernel::kFp8Columns;
  const bool same =
      rows && columns && SameFp8Codes(e, group.rowwise, group.columnwise);
  const int64_t step = !columns                ? last - first
                       : e.cols < kTile        ? kTile * (kTile / e.cols)
                       : rows && e.block == 32 ? 32
                                               : kTile;
  for (int64_t row = first; row < last && (rows || columns); row += step) {
    const int64_t end = Least(row + step, last);
    if (rows && !same) QuantizeFp8Rows(e, group, row, end, seen);
    if (columns) QuantizeFp8Columns(e, group, same, row, end, seen);
  }
  const bool wanted[2] = {choice.rowwise == EncodeKernel::kLines,
                          choice.columnwise == EncodeKernel::kLines};
  if (!wanted[0] && !wanted[1]) return;
  const EncodeFn encode = EncodeOf(e);
  // Both copies share the scales of squares if they share the amax.
  const bool shared =
      group.rowwise.data && (e.scaling != Scaling::kNvfp4 ||
                             SameAmax(group.rowwise, group.columnwise));
  bool streams[2];
  for (bool columnwise : {false, true}) {
    const CopyTask& copy = columnwise ? group.columnwise : group.rowwise;
    const bool in_place = copy.data_position != 1;
    streams[columnwise] =
        wanted[columnwise] &&
        (in_place ? MayStream(copy.data, copy.data_position, copy.padded, 64)
                  : MayStream(copy.data, copy.data_line, copy.lines, 64));
  }
  // The rows of a columnwise block or of a square.
  int64_t unit = 16;
  for (const int64_t rows : {e.block, group.columnwise.rotation}) {
    if ((wanted[1] || e.square) && rows > unit) unit = rows;
  }
  Tile tile;
  alignas(64) std::byte in_place[kTile][kTile];
  for (int64_t row = first; row < last; row += kTile) {
    for (int64_t col = 0; col < e.cols; col += kTile) {
      LoadTile(x, row, col, unit, &tile, seen);
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
        const bool whole = copy.data_position != 1 &&
                           row + kTile <= copy.padded &&
                           col + kTile <= copy.lines;
        const TileJob job = {e,
                             group,
                             copy,
                             columnwise,
                             streams[columnwise],
                             row,
                             col,
                             e.square ? &squares : nullptr,
                             columnwise ? col_errors : row_errors,
                             whole ? in_place : nullptr};
        const int64_t begin = columnwise ? col : row;
        const int64_t end = Least(begin + kTile, copy.lines);
        for (int64_t line = begin; line < end; line += W) {
          encode(job, tile, line, Least(W, end - line));
        }
        for (int64_t i = 0; whole && i < kTile; ++i) {
          std::byte* const to =
              copy.data + (row + i) * copy.data_position + col;
          streams[columnwise] ? StoreBytes<true, kTile>(in_place[i], to)
                              : StoreBytes<false, kTile>(in_place[i], to);
        }
      }
    }
  }
  if (streams[0] || streams[1]) StreamFence();
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
