// The columnwise copy of MXFP8, which lies as the input does: a lane takes two
// columns and the 32 rows of a block, so that codes leave by rows.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/codes/codes.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

inline constexpr int kMxRows = 32;
inline constexpr int kRowsAtOnce = 8;

// The two columns of a lane, at row `r` of the tile.
template <int kBytes>
__device__ __forceinline__ void LoadPair(uint32_t at, int r, DType type,
                                         float* a, float* b) {
  const uint32_t from =
      (at ^ static_cast<uint32_t>(r % 8 * 16)) + static_cast<uint32_t>(r * 128);
  if constexpr (kBytes == 4) {
    const uint2 w = LoadShared2(from);
    *a = __uint_as_float(w.x);
    *b = __uint_as_float(w.y);
  } else {
    const uint32_t word = LoadShared(from);
    if (type == DType::kBF16) {
      *a = LowOf(word);
      *b = HighOf(word);
    } else {
      *a = LowOf<DType::kF16>(word);
      *b = HighOf<DType::kF16>(word);
    }
  }
}

// The lane's two columns of a block, as they are read: again whenever they are
// wanted, since registers are shorter than shared memory.
template <int kBytes>
struct PlainPair {
  uint32_t from;
  DType type;

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    LoadPair<kBytes>(from, r, type, a, b);
  }
  __device__ __forceinline__ void FindMaxima(uint32_t (&max)[2]) const {
    if constexpr (kBytes == 2) {
      // A row's two are one word.
      const bool bf16 = type == DType::kBF16;
      const auto larger = [bf16](uint32_t a, uint32_t b) {
        return bf16 ? MaxOfWords<DType::kBF16>(a, b)
                    : MaxOfWords<DType::kF16>(a, b);
      };
      uint32_t m[2] = {};
      QUANTD_UNROLL
      for (int r = 0; r < kMxRows; ++r) {
        const uint32_t word = Word(r);
        m[r % 2] = larger(m[r % 2], word);
      }
      const uint32_t two = larger(m[0], m[1]) & 0x7FFF7FFFu;
      const float v[2] = {bf16 ? LowOf(two) : LowOf<DType::kF16>(two),
                          bf16 ? HighOf(two) : HighOf<DType::kF16>(two)};
      max[0] = __float_as_uint(v[0]) & kAbsMask;
      max[1] = __float_as_uint(v[1]) & kAbsMask;
    } else {
      float m[2] = {0.0f, 0.0f};
      QUANTD_UNROLL
      for (int r = 0; r < kMxRows; ++r) {
        float v[2];
        Load(r, &v[0], &v[1]);
        QUANTD_UNROLL
        for (int c = 0; c < 2; ++c) m[c] = LargerMagnitude(m[c], v[c]);
      }
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) max[c] = __float_as_uint(m[c]);
    }
  }
  // Likewise with NaN dropped, and Seen bits. Seldom needed.
  __device__ __forceinline__ uint32_t FindNumbers(uint32_t (&max)[2]) const {
    max[0] = max[1] = 0;
    uint32_t seen = 0;
#pragma unroll 1
    for (int r = 0; r < kMxRows; ++r) {
      float v[2];
      Load(r, &v[0], &v[1]);
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) {
        max[c] = __float_as_uint(fmaxf(__uint_as_float(max[c]), fabsf(v[c])));
      }
      seen |= SeenIn(LargestMagnitude(v, 0, 2), LargestNumber(v, 0, 2));
    }
    return seen;
  }

 private:
  __device__ __forceinline__ uint32_t Word(int r) const {
    return LoadShared((from ^ static_cast<uint32_t>(r % 8 * 16)) +
                      static_cast<uint32_t>(r * 128));
  }
};

// Where a lane's two columns of a block are.
struct InPlace {
  int64_t line;
  int64_t position;
};

// The codes of a lane's two columns straight to memory.
struct PairOfColumns {
  std::byte* to;
  int64_t pitch;
  int64_t left;  // rows that the copy has

  __device__ __forceinline__ PairOfColumns(const CopyTask& copy,
                                           const InPlace& at)
      : to(copy.data + at.position * copy.data_position + at.line),
        pitch(copy.data_position),
        left(copy.padded - at.position) {}
  // Of rows r, which is even, and r + 1: two codes each.
  __device__ __forceinline__ void Store(int r, uint32_t word) {
    if (r < left) {
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(word);
    }
    if (r + 1 < left) {
      *reinterpret_cast<uint16_t*>(to + pitch) =
          static_cast<uint16_t>(word >> 16);
    }
    to += 2 * pitch;
  }
};

// Scales of the two columns.
__device__ __forceinline__ void StorePairOfScales(const CopyTask& copy,
                                                  const InPlace& at,
                                                  uint32_t first,
                                                  uint32_t second) {
  const int64_t block = at.position / kMxRows;
  std::byte* const to = copy.scale + ScaleIndex(copy, at.line, block);
  if (copy.swizzled) {
    // (The first one's number is even: they are of one quarter of 32.)
    to[0] = static_cast<std::byte>(first);
    to[kSwizzledLine] = static_cast<std::byte>(second);
  } else {
    *reinterpret_cast<uint16_t*>(to) =
        static_cast<uint16_t>(first | second << 8);
  }
}

// --- as they are ------------------------------------------------------------

// Encodes a lane's two columns of a block. Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t
EncodePair(const EncodeParams& p, const CopyTask& copy, const InPlace& at,
           const PlainPair<kBytes>& values) {
  uint32_t max[2];
  values.FindMaxima(max);
  uint32_t clean[2] = {max[0], max[1]};
  uint32_t seen = 0;
  if (max[0] >= kInfBits || max[1] >= kInfBits) {
    seen = values.FindNumbers(clean);
  }
  BlockScale<Scalar> scales[2];
  QUANTD_UNROLL
  for (int c = 0; c < 2; ++c) scales[c] = C::ScaleOf(p, {}, max[c], clean[c]);
  StorePairOfScales(copy, at, scales[0].stored, scales[1].stored);
  PairOfColumns codes(copy, at);
#pragma unroll(kRowsAtOnce / 2)
  for (int r = 0; r < kMxRows; r += 2) {
    float y[4];
    values.Load(r, &y[0], &y[1]);
    values.Load(r + 1, &y[2], &y[3]);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) y[i] = y[i] * scales[i % 2].m;
    codes.Store(r, p.element == DType::kE4M3
                       ? CodesOf<DType::kE4M3>(y[0], y[1], y[2], y[3])
                       : CodesOf<DType::kE5M2>(y[0], y[1], y[2], y[3]));
  }
  return seen;
}

// Where a lane's two columns of a tile are that 32 rows have together: of a
// warp's 64 columns, whose codes leave by pieces of 64 bytes.
struct OwnPair {
  int row;
  int column;

  __device__ __forceinline__ OwnPair() {
    const auto warp = static_cast<int>(Team::warp());
    row = warp % 4 * kMxRows;
    column = warp / 4 * 64 + 2 * static_cast<int>(threadIdx.x % kWarp);
  }
};

// Whether the copy has anything of two columns of a block, and where.
__device__ __forceinline__ bool IsIn(const Place& at, const CopyTask& copy,
                                     int row, int column) {
  return int64_t{at.row} + row < copy.padded && column < at.cols;
}
__device__ __forceinline__ InPlace PlaceOfPair(const Place& at, int row,
                                               int column) {
  return {int64_t{at.col} + column, int64_t{at.row} + row};
}

// Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t
EncodeColumnsInPlace(const EncodeParams& p, const StagedTileOf<kBytes>& tile,
                     const Place& at, const CopyTask& copy) {
  const OwnPair own;
  if (!IsIn(at, copy, own.row, own.column)) return 0;
  const PlainPair<kBytes> plain = {
      SharedAddress(tile.bytes) +
          static_cast<uint32_t>(TileOffset<kBytes>(own.row, own.column)),
      p.input};
  return EncodePair<C>(p, copy, PlaceOfPair(at, own.row, own.column), plain);
}

// --- rotated ----------------------------------------------------------------

// A lane's two columns of a block, where the warp has rotated them: lines of
// bf16. Their codes take the place of one of them, eight rows at a time.
//
// A piece of eight rows is sixteen bytes, which eight lanes take together: four
// pairs of columns of two blocks. Lanes of the second block go through theirs
// in another order, and other pairs leave their codes in the second column, for
// the banks.
class RotatedPair {
 public:
  static constexpr uint32_t kPieces = kMxRows / 8;

  __device__ __forceinline__ explicit RotatedPair(const StagedTile& lines) {
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    const int pair = lane % 4 + lane / 8 % 2 * 4;
    const int block = lane / 4 % 2 + lane / 16 * 2;
    row = block * kMxRows;
    column = static_cast<int>(Team::warp()) * kBlock + 2 * pair;
    first_ = (SharedAddress(lines.bytes) +
              static_cast<uint32_t>(TileOffset(column, row))) ^
             static_cast<uint32_t>(block % 2 * 16);
    codes_ = pair < 4 ? first_ : second();
  }

  // bf16 bits of the largest magnitudes; of NaN, a NaN's.
  __device__ __forceinline__ void FindMaxima(uint32_t (&max)[2]) const {
    uint32_t m[2] = {};
    QUANTD_UNROLL
    for (uint32_t i = 0; i < kPieces; ++i) {
      m[0] = MaxOfWords(m[0], LargestOfPiece(LoadShared4(first_ ^ i * 16)));
      m[1] = MaxOfWords(m[1], LargestOfPiece(LoadShared4(second() ^ i * 16)));
    }
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) max[c] = LargerHalf(m[c] & 0x7FFF7FFFu);
  }
  // Likewise with NaN dropped. Seldom needed.
  __device__ __forceinline__ void FindNumbers(uint32_t (&max)[2]) const {
    max[0] = max[1] = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < kPieces * 4; ++i) {
      const uint32_t at = i / 4 * 16 ^ i % 4 * 4;
      const uint32_t words[2] = {LoadShared(first_ ^ at),
                                 LoadShared(second() ^ at)};
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) {
        const float m = fmaxf(fabsf(LowOf(words[c])), fabsf(HighOf(words[c])));
        max[c] = __float_as_uint(fmaxf(__uint_as_float(max[c]), m));
      }
    }
  }

  // Makes codes of both columns under their multipliers.
  template <DType E>
  __device__ __forceinline__ void Encode(float first, float second) const {
    const uint32_t m[2] = {BothHalves(first), BothHalves(second)};
#pragma unroll 2
    for (uint32_t i = 0; i < kPieces; ++i) {
      const uint4 a = LoadShared4(first_ ^ i * 16);
      const uint4 b = LoadShared4(this->second() ^ i * 16);
      StoreShared(
          codes_ ^ i * 16,
          make_uint4(CodesOfTwo<E>(a.x, b.x, m), CodesOfTwo<E>(a.y, b.y, m),
                     CodesOfTwo<E>(a.z, b.z, m), CodesOfTwo<E>(a.w, b.w, m)));
    }
  }

  int row;  // of the tile
  int column;

 private:
  __device__ __forceinline__ uint32_t second() const {
    return (first_ ^ 16) + 128;
  }
  static __device__ __forceinline__ uint32_t LargestOfPiece(const uint4& w) {
    return MaxOfWords(MaxOfWords(w.x, w.y), MaxOfWords(w.z, w.w));
  }
  // Two rows of both columns.
  template <DType E>
  static __device__ __forceinline__ uint32_t
  CodesOfTwo(uint32_t a, uint32_t b, const uint32_t (&m)[2]) {
    a = TimesPowerOfTwo(a, m[0]);
    b = TimesPowerOfTwo(b, m[1]);
    return CodesOf<E>(LowOf(a), LowOf(b), HighOf(a), HighOf(b));
  }

  uint32_t first_;
  uint32_t codes_;
};

// Likewise byte by byte, of tiles of which only some is there: so many rows and
// columns of the lane's eight. `at_sixteen(q)` is where fragments of 16 rows
// are. Seldom needed.
template <typename AtSixteen>
__device__ __forceinline__ void StoreRotatedPairs(int64_t rows, int columns,
                                                  std::byte* to, int64_t pitch,
                                                  const AtSixteen& at_sixteen) {
#pragma unroll 1
  for (uint32_t q = 0; q < 4 && q * kBlock < rows; ++q) {
    uint32_t x[4];
    LoadFragmentsAt<true>(at_sixteen(q), x);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      std::byte* const four = to + i % 2 * 4;
      QUANTD_UNROLL
      for (int k = 0; k < 4; ++k) {
        if (i % 2 * 4 + k < columns) {
          four[k] = static_cast<std::byte>(x[i] >> (8 * k));
        }
      }
      if (i % 2 == 1) to += pitch;
    }
  }
}

// The codes of a pair of warps' rotated columns to memory, by rows: sectors of
// 32 columns, which take half of the time that sixteen take. A warp has 64 rows
// of them. All lanes of both must call this when all have been set.
__device__ __forceinline__ void FlushRotatedPairs(const StagedTile& lines,
                                                  const Place& at,
                                                  const CopyTask& copy) {
  Team::SyncPair();
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const auto warp = static_cast<int>(Team::warp());
  const int first = warp / 2 * 32;
  const int row = warp % 2 * 64;
  // Fragments are eight pairs of columns and eight rows, of two codes. Two of
  // them have eight columns of a row in each lane.
  const int pair = lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2;
  const int line = first + pair / 8 * kBlock + pair % 8 * 2 + pair % 8 / 4;
  const uint32_t from =
      SharedAddress(lines.bytes) +
      static_cast<uint32_t>(TileOffset(line, row + lane / 16 * 8));
  const auto at_sixteen = [&](uint32_t q) { return from ^ q * 32; };
  const int columns = at.cols - first - lane % 4 * 8;  // the lane's, of eight
  std::byte* to = copy.data +
                  (int64_t{at.row} + row + lane / 4) * copy.data_position +
                  at.col + first + lane % 4 * 8;
  const int64_t pitch = 8 * copy.data_position;
  const bool whole = columns >= 8 && at.row + kTileSide <= copy.padded &&
                     reinterpret_cast<uintptr_t>(copy.data) % 8 == 0 &&
                     copy.data_position % 8 == 0;
  if (__all_sync(0xFFFFFFFFu, whole)) {
    uint32_t x[4][4];
    QUANTD_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      LoadFragmentsAt<true>(at_sixteen(q), x[q]);
    }
    QUANTD_UNROLL
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t* two = &x[i / 2][i % 2 * 2];
      StoreGlobal(make_uint2(two[0], two[1]), to);
      to += pitch;
    }
  } else {
    StoreRotatedPairs(copy.padded - at.row - row, columns, to, pitch,
                      at_sixteen);
  }
  Team::SyncPair();  // the other warp may take its lines back
}

// Columns that the warp has rotated. All lanes must call this.
template <typename C>
__device__ __forceinline__ void EncodeRotatedInPlace(const EncodeParams& p,
                                                     const StagedTile& lines,
                                                     const Place& at,
                                                     const CopyTask& copy) {
  __syncwarp();
  const RotatedPair pair(lines);
  if (IsIn(at, copy, pair.row, pair.column)) {
    uint32_t max[2];
    pair.FindMaxima(max);
    uint32_t clean[2] = {max[0], max[1]};
    if (max[0] > kInfBits || max[1] > kInfBits) pair.FindNumbers(clean);
    const BlockScale<Scalar> first = C::ScaleOf(p, {}, max[0], clean[0]);
    const BlockScale<Scalar> second = C::ScaleOf(p, {}, max[1], clean[1]);
    StorePairOfScales(copy, PlaceOfPair(at, pair.row, pair.column),
                      first.stored, second.stored);
    if (p.element == DType::kE4M3) {
      pair.Encode<DType::kE4M3>(first.m, second.m);
    } else {
      pair.Encode<DType::kE5M2>(first.m, second.m);
    }
  }
  FlushRotatedPairs(lines, at, copy);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
