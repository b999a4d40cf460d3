// Encodes rotated columnwise MXFP8. A warp encodes the sixteen columns that it
// has rotated, and two warps store their columns together.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_IN_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_IN_PLACE_CUH_

#include "kernels/cuda/encode/frame/in_place.cuh"

namespace quantd::cuda {

// A lane's two columns of a block, as lines of bf16 that the warp has rotated.
// Their codes overwrite one of the columns, eight rows at a time.
//
// A piece is eight rows of a column, sixteen bytes. Eight lanes access pieces
// together: those of four pairs of columns in two blocks. To avoid bank
// conflicts, lanes of the second block access their pieces in another order,
// and pairs 4 to 7 leave their codes in the second column.
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

  // Finds the largest magnitudes as fp32 bits. NaN if any element is NaN.
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
  // Finds the maxima without NaN. Seldom called.
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

  // Encodes both columns with their multipliers.
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

  int row;  // within the tile
  int column;

 private:
  __device__ __forceinline__ uint32_t second() const {
    return (first_ ^ 16) + 128;
  }
  static __device__ __forceinline__ uint32_t LargestOfPiece(const uint4& w) {
    return MaxOfWords(MaxOfWords(w.x, w.y), MaxOfWords(w.z, w.w));
  }
  // Encodes two rows of both columns.
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

// Stores a partial tile byte by byte: `rows` rows, and `columns` of the lane's
// eight columns. `at_sixteen(q)` is the address of the fragments of rows 16 q
// to 16 q + 15. Seldom called.
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

// Stores the codes of two warps' rotated columns, row by row. A row is a sector
// of 32 columns; 16 columns would take as long. Each warp stores 64 rows. All
// lanes of both warps must call this after all codes have been set.
__device__ __forceinline__ void FlushRotatedPairs(const StagedTile& lines,
                                                  const Place& at,
                                                  const CopyTask& copy) {
  Team::SyncPair();
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const auto warp = static_cast<int>(Team::warp());
  const int first = warp / 2 * 32;
  const int row = warp % 2 * 64;
  // A fragment is eight pairs of columns and eight rows of two codes. From two
  // fragments each lane gets eight columns of a row.
  const int pair = lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2;
  const int line = first + pair / 8 * kBlock + pair % 8 * 2 + pair % 8 / 4;
  const uint32_t from =
      SharedAddress(lines.bytes) +
      static_cast<uint32_t>(TileOffset(line, row + lane / 16 * 8));
  const auto at_sixteen = [&](uint32_t q) { return from ^ q * 32; };
  // Columns of the tile from the lane's first on.
  const int columns = at.cols - first - lane % 4 * 8;
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
  Team::SyncPair();  // lets the other warp reuse its lines
}

// Encodes the columns that the warp has rotated. All lanes must call this.
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

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_IN_PLACE_CUH_
