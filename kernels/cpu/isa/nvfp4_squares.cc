// NVFP4 codes with one scale per square of 16 x 16, for one copy or both at
// once. The leaf rule of tiles.cc applies.
//
// The unit is a band: sixteen rows of kBandCols columns, hence kSquares squares
// side by side. Its columns are encoded with a column in each lane. To nearest,
// a code is the same in both copies, so the rowwise codes are the columnwise
// ones transposed.
#include "kernels/arith/encode.h"
#include "kernels/cpu/isa/fp8.h"
#include "kernels/cpu/isa/nvfp4.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

using L = Lane;
using F = L::F;
using U = L::U;

constexpr int64_t kSquares = kBandCols / kBlock;
constexpr int64_t kRowBytes = kBandCols / 2;

// A band's values, and what is found for its squares. A pair is a pair of
// vectors of LoadColumns: 2W columns, two in each lane.
template <DType D>
struct Squares {
  Band<D> band;
  // Maxima of the columns in each lane of each pair, as fp32 bits, with NaN
  // above Inf and with NaN dropped. Zeros after them, because lanes may
  // outnumber the squares.
  uint32_t max[kBandCols] = {};
  uint32_t clean[kBandCols] = {};
  std::byte scales[kTileRows / kBlock][kSquares] =
      {};  // of each band of a tile
  // The multipliers in the order of a band's squares, and those of the lanes of
  // each pair (16-bit types) or vector (fp32).
  float m[2 * kSquares];
  alignas(64) float lanes[kBandCols + W];
  bool special;  // some value is NaN or Inf, or must be clamped
};

struct Job {
  const EncodeParams& params;
  const GroupTask& group;
  LineScale<L> line;
  bool stream_rows;
  bool stream_columns;
  cpu::Maxima* seen;
};

// Finds the maxima of the columns of `pairs` pairs, and the largest of them.
template <DType D, bool kSpecial>
QUANTD_FN U MaximaOf(int64_t pairs, Squares<D>* s) {
  U all{};
  for (int64_t pair = 0; pair < pairs; ++pair) {
    Running<D, kSpecial> running;
    for (int64_t r = 0; r < kBlock; ++r) {
      running.Add(
          LoadTwin<D>(s->band.v + (r * kBandCols + pair * 2 * W) * SizeOf(D)));
    }
    const U max = running.Max();
    all = L::Max(max, all);
    __builtin_memcpy(s->max + pair * W, &max, sizeof(max));
    if constexpr (kSpecial) {
      const U clean = running.Clean();
      __builtin_memcpy(s->clean + pair * W, &clean, sizeof(clean));
    }
  }
  return all;
}
template <DType D>
__attribute__((noinline)) void SpecialMaxima(int64_t pairs, Squares<D>* s) {
  MaximaOf<D, true>(pairs, s);
}

// The largest number of each square from `first` on, one in each lane.
QUANTD_FN U OfSquares(const uint32_t* lanes, int64_t first) {
  constexpr int64_t kEach = kBlock / 2;
  const auto* from = reinterpret_cast<const std::byte*>(lanes + first * kEach);
  U largest{};
  for (int c = 0; c < 2; ++c) {
    U words[4];
    LoadWords<W>(from, kEach * sizeof(uint32_t), c, words);
    for (const U& each : words) largest = L::Max(each, largest);
  }
  return largest;
}

// The errors of the squares from `first` on, under a scale for each; added as
// by FourOverSixErrorOfSquare.
template <DType D>
F ErrorsOfSquares(const Job& job, const Band<D>& band, int64_t first,
                  U scales) {
  F sums[kBlock];
  for (int64_t r = 0; r < kBlock; ++r) {
    F v[kBlock];
    LoadBlocks<D, W>(band.v + (r * kBandCols + first * kBlock) * SizeOf(D), v);
    sums[r] = FourOverSixError<L>(job.params, job.line, v, scales);
  }
  return FourOverSixErrorOfSquare(sums);
}

// Finds the scales and multipliers of the squares in `pairs` pairs.
template <DType D>
QUANTD_FN void FindScales(const Job& job, int64_t pairs, Squares<D>* s,
                          std::byte* scales) {
  const EncodeParams& p = job.params;
  s->special = L::Any(MaximaOf<D, false>(pairs, s) >= kInfBits);
  const uint32_t* clean = s->max;
  if (__builtin_expect(s->special, false)) {
    SpecialMaxima<D>(pairs, s);
    clean = s->clean;
  }
  for (int64_t first = 0; first < kSquares; first += W) {
    const U max = OfSquares(s->max, first);
    const U numbers = OfSquares(clean, first);
    job.seen->nan |= L::Any(max > kInfBits);
    job.seen->inf |= L::Any(numbers == kInfBits);
    const BlockScale<L> found =
        !TriesScales(p)
            ? MakeBlockScale<L>(p, job.line, max, numbers)
            : UnderScale<L>(
                  p, job.line,
                  BestScale<L>(p, job.line, max, numbers, [&](int, U scale) {
                    return ErrorsOfSquares<D>(job, s->band, first, scale);
                  }));
    // Stochastic rounding always clamps.
    const F most = L::Float(numbers) * found.m;
    const F seven = L::Broadcast(p.stochastic ? L::Float32(kInfBits) : 7.0f);
    s->special |= L::Any((L::Bits(found.m) == 0u) | (most >= seven));
    const L::U8 codes = L::LowBytes(found.stored);
    __builtin_memcpy(scales + first, &codes, Least(W, kSquares));
    __builtin_memcpy(s->m + first, &found.m, sizeof(found.m));
  }
  constexpr int kEach = kIsHalf<D> ? kBlock / 2 : kBlock;
  for (int64_t i = 0; i < kSquares; ++i) {
    const F m = L::Broadcast(s->m[i]);
    for (int j = 0; j < kEach; j += W) {
      __builtin_memcpy(s->lanes + i * kEach + j, &m, sizeof(m));
    }
  }
}

// Codes of sixteen values in each lane; kSpecial is Squares::special. With
// kStochastic, lane i uses the random bytes of `counter` + i * kStep.
template <bool kStochastic, bool kSpecial, int kStep>
QUANTD_FN void EncodeLanes(const EncodeParams& p, const F (&v)[16], F m,
                           uint64_t counter, uint64_t subsequence,
                           U (&words)[4]) {
  if constexpr (kStochastic) {
    RandomBytes<L> random;
    random.shift = 0;
    Philox<L>(counter, kStep, subsequence, p.seed, random.words);
    // Forces the bytes into memory, because registers are needed for the codes.
    asm volatile("" : "+m"(random));
    kSpecial ? EncodeSixteen<L>(p, v, m, &random, words)
             : EncodeSixteenByBytes<L>(v, m, random, words);
  } else if constexpr (!kSpecial) {
    words[0] = PackE2M1<L, E2M1Input::kBelow7>(v, m);
    words[1] = PackE2M1<L, E2M1Input::kBelow7>(v + 8, m);
  } else if (TakesNumbers<L, false>(p, m) && AreNumbers<L>(v)) {
    EncodeSixteenNumbers<L, false>(p, v, m, words);
  } else {
    EncodeSixteen<L>(p, v, m, nullptr, words);
  }
}

// Transposes the codes of a pair, in the two words of each of its vectors, to
// sixteen rows of kRowBytes bytes.
template <DType D>
QUANTD_FN void TransposeCodes(const U (&first)[4], const U (&second)[4],
                              std::byte* rows) {
  for (int w = 0; w < 2; ++w) {
    U even = first[w], odd = second[w];
    if constexpr (D == DType::kF32) {
      SplitPairs<W>(first[w], second[w], &even, &odd);
    }
    const U bytes[2] = {
        (even & 0x0F0F0F0Fu) | (odd & 0x0F0F0F0Fu) << 4,
        ((even >> 4) & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u),
    };
    for (int i = 0; i < 2; ++i) {
      const U transposed = SplitBytes<W>(bytes[i]);
      std::byte buffer[4 * W];
      __builtin_memcpy(buffer, &transposed, sizeof(buffer));
      for (int j = 0; j < 4; ++j) {
        __builtin_memcpy(rows + (8 * w + 2 * j + i) * kRowBytes, buffer + j * W,
                         W);
      }
    }
  }
}

// A band's place: its first row and column in the group, and its rows.
struct Place {
  int64_t row;
  int64_t rows;
  int64_t col;
  int64_t block;  // of the columns in `stage`
  Stage* stage;
  const std::byte* next;  // the next band, to prefetch
};

// Encodes the columns of a band, and its rows to `rows` if it is set.
template <DType D, bool kStochastic, bool kSpecial>
__attribute__((noinline)) void EncodeBand(const Job& job, const Squares<D>& s,
                                          const Place& at, int64_t pairs,
                                          bool to_columns, std::byte* rows) {
  constexpr int64_t kSize = SizeOf(D);
  constexpr int kStep = ColumnOf<D>(0, 1) - ColumnOf<D>(0, 0);
  const EncodeParams& p = job.params;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    // Spreads prefetches evenly, like QuantizeBands.
    for (int64_t r = pair * W / 4; r < (pair + 1) * W / 4; ++r) {
      Prefetch<kBandCols * kSize>(at.next + r * p.cols * kSize);
    }
    if (kStochastic && !to_columns) continue;
    U words[2][4];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t vector = 2 * pair + i;
      F v[16], m;
      LoadColumns<D>(s.band, vector, v);
      __builtin_memcpy(&m, s.lanes + (kIsHalf<D> ? pair : vector) * W,
                       sizeof(m));
      EncodeLanes<kStochastic, kSpecial, kStep>(
          p, v, m,
          ColumnCounter(p, job.group.row, at.row / kBlock,
                        at.col + ColumnOf<D>(vector, 0)),
          p.subsequence + 1, words[i]);
      if (to_columns) {
        StageCodes<D>(words[i][0], words[i][1], vector, at.block, at.stage);
      }
    }
    if constexpr (!kStochastic) {
      if (rows) TransposeCodes<D>(words[0], words[1], rows + pair * W);
    }
  }
  if (!kStochastic || !rows) return;
  // The bytes of a row differ, so a square is encoded in each lane.
  for (int64_t r = 0; r < at.rows; ++r) {
    for (int64_t first = 0; first < kSquares; first += W) {
      F v[16], m;
      LoadBlocks<D, W>(s.band.v + (r * kBandCols + first * kBlock) * kSize, v);
      __builtin_memcpy(&m, s.m + first, sizeof(m));
      U words[4];
      EncodeLanes<kStochastic, kSpecial, 1>(
          p, v, m,
          RowCounter(p, job.group.row + at.row + r, at.col / kBlock + first),
          p.subsequence, words);
      std::byte both[8 * W];
      StorePairs<W>(words[0], words[1], both);
      __builtin_memcpy(rows + r * kRowBytes + 8 * first, both,
                       8 * Least(W, kSquares));
    }
  }
}

// Stores the rowwise codes and scales of a band.
void StoreRows(const Job& job, int64_t row, int64_t rows, int64_t col,
               int64_t cols, const std::byte* codes, const std::byte* scales) {
  const CopyTask& copy = job.group.rowwise;
  const int64_t blocks = (cols + kBlock - 1) / kBlock;
  for (int64_t r = 0; r < rows; ++r, codes += kRowBytes) {
    std::byte* to = copy.data + (row + r) * copy.data_line + col / 2;
    if (blocks < kSquares) {
      __builtin_memcpy(to, codes, 8 * blocks);
    } else {
      job.stream_rows ? StoreBytes<true, kRowBytes>(codes, to)
                      : StoreBytes<false, kRowBytes>(codes, to);
    }
    StoreScaleRun(copy, row + r, col / kBlock, scales, blocks);
  }
}

// Encodes kTileRows rows of a band's columns, sixteen rows at a time.
template <DType D, bool kStochastic>
void QuantizeTile(const Job& job, int64_t row, int64_t rows, int64_t col,
                  int64_t cols, Squares<D>* s, Stage* stage) {
  // Whole squares, whose maxima are in several lanes.
  constexpr int64_t kUnit = 2 * W < kBlock ? kBlock : 2 * W;
  const EncodeParams& p = job.params;
  const cpu::Matrix x = {job.group.x, p.input, job.group.rows, p.cols};
  const CopyTask& columns = job.group.columnwise;
  const int64_t pitch = x.cols * static_cast<int64_t>(SizeOf(D));
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  const int64_t pairs = (cols + kUnit - 1) / kUnit * kUnit / (2 * W);
  const std::byte* const from = x.data + row * pitch + col * SizeOf(D);
  alignas(64) std::byte codes[kBlock * kRowBytes];
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t top = kBlock * block;
    const Place at = {row + top,
                      Least(kBlock, rows - top),
                      col,
                      block,
                      stage,
                      block + 1 < blocks ? from + (top + kBlock) * pitch
                                         : from + kBandCols * SizeOf(D)};
    PackBand<D>(x, at.row, at.rows, col, cols, &s->band);
    FindScales<D>(job, pairs, s, s->scales[block]);
    (s->special
         ? EncodeBand<D, kStochastic, true>
         : EncodeBand<D, kStochastic, false>)(job, *s, at, pairs,
                                              columns.data != nullptr,
                                              job.group.rowwise.data ? codes
                                                                     : nullptr);
    if (job.group.rowwise.data) {
      StoreRows(job, at.row, at.rows, col, cols, codes, s->scales[block]);
    }
  }
  if (columns.data == nullptr) return;
  for (int64_t i = 0; i < kSquares; ++i) {
    std::byte each[kTileRows / kBlock];
    for (int64_t b = 0; b < kTileRows / kBlock; ++b) each[b] = s->scales[b][i];
    for (int64_t c = 0; c < kBlock; ++c) {
      __builtin_memcpy(stage->scales[i * kBlock + c], each, sizeof(each));
    }
  }
  (job.stream_columns ? Flush<true> : Flush<false>)(*stage, columns, row, rows,
                                                    col, cols);
}

// Makes the copies of `group`, which share their amax.
void QuantizeSquares(const EncodeParams& e, const GroupTask& group,
                     int64_t first, int64_t last, cpu::Maxima* seen) {
  const CopyTask& rows = group.rowwise;
  const CopyTask& columns = group.columnwise;
  const float amax = rows.data ? *rows.amax : *columns.amax;
  const Job job = {
      e,
      group,
      MakeLineScale<L>(e, L::Broadcast(amax), F{}),
      rows.data && MayStream(rows.data, rows.data_line, rows.lines, 64),
      columns.data &&
          MayStream(columns.data, columns.data_line, columns.lines, 64),
      seen};
  ForDType(e.input, [&]<DType D>() {
    Squares<D> squares;
    Stage stage;
    for (int64_t row = first; row < last; row += kTileRows) {
      for (int64_t col = 0; col < e.cols; col += kBandCols) {
        (e.stochastic
             ? QuantizeTile<D, true>
             : QuantizeTile<D, false>)(job, row, Least(kTileRows, last - row),
                                       col, Least(kBandCols, e.cols - col),
                                       &squares, &stage);
      }
    }
  });
  if (job.stream_rows || job.stream_columns) StreamFence();
}

}  // namespace

void QuantizeNvfp4Squares(const EncodeParams& e, const GroupTask& group,
                          int64_t first, int64_t last, cpu::Maxima* seen) {
  if (!group.rowwise.data || !group.columnwise.data ||
      SameAmax(group.rowwise, group.columnwise)) {
    return QuantizeSquares(e, group, first, last, seen);
  }
  GroupTask one = group;
  one.columnwise.data = nullptr;
  QuantizeSquares(e, one, first, last, seen);
  one = group;
  one.rowwise.data = nullptr;
  QuantizeSquares(e, one, first, last, seen);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd
