// Makes the scales of the blocks of a tile (kernels/cuda/encode/fp8/strip.cuh).
// Lanes share the maxima of rows by shuffles. Warps share the maxima of columns
// in shared memory. kernels/arith/encode.h computes the scales.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_SCALES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_SCALES_CUH_

#include "kernels/cuda/encode/fp8/strip.cuh"

namespace quantd::cuda {

// Makes the scale of a block whose largest magnitude is `max`, as fp32 bits.
// Its element i, of type D, is at `p` + i * `step`. MX also supports the scale
// rules of profiles. All of them multiply elements by a power of two, which
// only rounds elements that get the code 0.
template <Scaling S, DType D>
__device__ __forceinline__ BlockScale<Scalar> SettleBlock(
    const EncodeParams& params, uint32_t max, const std::byte* p, int64_t step,
    int64_t count) {
  EncodeParams known = params;
  known.scaling = S;
  uint32_t clean = max;
  if (max > kInfBits) clean = CleanMax<D>(p, step, count);
  if (S == Scaling::kMx && params.numerics.other) {
    return MakeBlockScale<Scalar, true>(known, {}, max, clean);
  }
  return MakeBlockScale<Scalar>(known, {}, max, clean);
}

// Reduces maxima over kLanes neighbouring lanes. A word holds the maxima of two
// rows. Lane i keeps the i-th of kLanes equal parts of the words. If there are
// fewer words than lanes, several lanes keep the same word.
template <DType D, int kLanes, int kWords = kStripRows / 2>
__device__ __forceinline__ void ReduceRows(int lane, uint32_t* max) {
  constexpr int kBit = kLanes / 2;
  if constexpr (kWords == 1) {
    max[0] = MaxOfWords<D>(max[0], __shfl_xor_sync(0xFFFFFFFFu, max[0], kBit));
  } else {
    const bool upper = (lane & kBit) != 0;
    QUANTD_UNROLL
    for (int i = 0; i < kWords / 2; ++i) {
      const uint32_t keep = upper ? max[i + kWords / 2] : max[i];
      const uint32_t give = upper ? max[i] : max[i + kWords / 2];
      max[i] = MaxOfWords<D>(keep, __shfl_xor_sync(0xFFFFFFFFu, give, kBit));
    }
  }
  if constexpr (kBit > 1) {
    ReduceRows<D, kBit, kWords == 1 ? 1 : kWords / 2>(lane, max);
  }
}

// The multipliers of the rows of a strip. `Settle` makes the scales from the
// result of RowMax and stores them.
template <Scaling S, DType D>
class RowScales;

template <DType D>
class RowScales<Scaling::kTensor, D> {
 public:
  __device__ void Settle(const EncodeParams&, const CopyTask& copy,
                         const Strip<D>&, uint32_t (&)[kStripRows / 2]) {
    m_ = *copy.tensor_scale;
  }
  // The multipliers of rows 4 * q to 4 * q + 3 in this lane's columns. All
  // lanes must call this.
  __device__ void Four(int, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) m[i] = m_;
  }

 private:
  float m_;
};

// For blocks of 128, a lane makes the scale of one row.
template <DType D>
class RowScales<Scaling::kBlock, D> {
 public:
  __device__ void Settle(const EncodeParams& params, const CopyTask& copy,
                         const Strip<D>& s, uint32_t (&max)[kStripRows / 2]) {
    ReduceRows<D, 32, kStripRows / 2>(s.lane, max);
    const int64_t col = s.col - s.lane * kLaneCols;
    const int64_t row = s.row + s.lane;
    const int64_t left = s.cols - col;
    const BlockScale<Scalar> scale = SettleBlock<Scaling::kBlock, D>(
        params,
        s.lane % 2 == 0 ? LowMagnitude<D>(max[0]) : HighMagnitude<D>(max[0]),
        s.group->x + 2 * (row * s.cols + col), 2, left < 128 ? left : 128);
    m_ = scale.m;
    if (s.lane < s.rows) {
      StoreGlobal(StoredScale<Scalar>(params, scale.stored),
                  copy.scale + 4 * (row + col / 128 * copy.scale_block));
    }
  }
  __device__ void Four(int q, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      m[i] = __shfl_sync(0xFFFFFFFFu, m_, 4 * q + i);
    }
  }

 private:
  float m_;
};

// For MX, a lane makes the scales of four rows in one of the four blocks of 32
// columns.
template <DType D>
class RowScales<Scaling::kMx, D> {
 public:
  __device__ void Settle(const EncodeParams& params, const CopyTask& copy,
                         const Strip<D>& s, uint32_t (&max)[kStripRows / 2]) {
    octet_ = s.lane & 24;
    ReduceRows<D, 8, kStripRows / 2>(s.lane, max);
    const int64_t col = s.col - s.lane % 8 * kLaneCols;
    const int64_t row = s.row + s.lane % 8 * 4;
    const std::byte* const x = s.group->x + 2 * (row * s.cols + col);
    uint32_t codes = 0;
    uint32_t m[4];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const BlockScale<Scalar> scale = SettleBlock<Scaling::kMx, D>(
          params,
          i % 2 == 0 ? LowMagnitude<D>(max[i / 2])
                     : HighMagnitude<D>(max[i / 2]),
          x + 2 * i * s.cols, 2, 32);
      codes |= scale.stored << (8 * i);
      m[i] = __float_as_uint(scale.m);
    }
    // A power of two is exact as bf16.
    m_[0] = __byte_perm(m[0], m[1], 0x7632);
    m_[1] = __byte_perm(m[2], m[3], 0x7632);
    // Blocks beyond the matrix have scale 0, like padding, whatever a profile
    // stores for zeros.
    Store(copy, s, col < s.cols ? codes : 0);
  }
  __device__ void Four(int q, float (&m)[4]) const {
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t two = __shfl_sync(0xFFFFFFFFu, m_[i], octet_ | q);
      m[2 * i] = LowOf(two);
      m[2 * i + 1] = HighOf(two);
    }
  }

 private:
  // Exchanges four rows of one block for four blocks of one row, and stores
  // them as a word.
  __device__ __forceinline__ void Store(const CopyTask& copy, const Strip<D>& s,
                                        uint32_t codes) const {
    uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, codes, 16);
    codes = (s.lane & 16) != 0 ? __byte_perm(other, codes, 0x7632)
                               : __byte_perm(codes, other, 0x5410);
    other = __shfl_xor_sync(0xFFFFFFFFu, codes, 8);
    codes = (s.lane & 8) != 0 ? __byte_perm(codes, other, 0x3715)
                              : __byte_perm(codes, other, 0x6240);
    const int r = s.lane % 8 * 4 + s.lane / 8;
    if (r >= s.rows) return;
    const int64_t block = (s.col - s.lane * kLaneCols) / 32;
    StoreGlobal(codes, copy.scale + ScaleIndex(copy, s.row + r, block));
  }

  int octet_;
  uint32_t m_[2];
};

// Finds the largest magnitude of each of the lane's four columns.
template <DType D>
__device__ __forceinline__ uint2 ColumnMax(const Strip<D>& s) {
  uint2 max = make_uint2(0, 0);
  QUANTD_UNROLL
  for (int r = 0; r < kStripRows; ++r) {
    max.x = MaxOfWords<D>(s.raw[r].x, max.x);
    max.y = MaxOfWords<D>(s.raw[r].y, max.y);
  }
  return max;
}

// Finds the largest magnitude of each row in the lane's four columns. A word
// holds those of two rows.
template <DType D>
__device__ __forceinline__ void RowMax(const Strip<D>& s,
                                       uint32_t (&max)[kStripRows / 2]) {
  QUANTD_UNROLL
  for (int i = 0; i < kStripRows / 2; ++i) {
    const uint32_t a = MaxOfWords<D>(s.raw[2 * i].x, s.raw[2 * i].y);
    const uint32_t b = MaxOfWords<D>(s.raw[2 * i + 1].x, s.raw[2 * i + 1].y);
    max[i] =
        MaxOfWords<D>(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
  }
}

// Picks the magnitude of one column from a word that holds those of two.
template <DType D>
__device__ __forceinline__ uint32_t MagnitudeIn(const uint2& max, int column) {
  const uint32_t word = column < 2 ? max.x : max.y;
  return column % 2 == 0 ? LowMagnitude<D>(word) : HighMagnitude<D>(word);
}

// Shared memory through which the warps of a tile exchange maxima and codes of
// its columns.
template <Scaling S>
struct ColumnShared {
  // Codes of a column in 8 pieces of 16 rows. The order of a column's pieces
  // avoids bank conflicts in writing and reading.
  uint4 codes[kTileSide][kTileSide / 16];
  uint2 max[kTileWarps][32];

  static __device__ int Piece(int column, int piece) {
    return piece ^ (column / kLaneCols % 8);
  }
};
template <>
struct ColumnShared<Scaling::kMx> {
  uint32_t swizzled[kTileThreads];
};

// Makes the multipliers of the lane's four columns from the result of
// ColumnMax, and stores the scales. All threads of the CTA must call this.
template <Scaling S, DType D>
__device__ __forceinline__ void ColumnScales(const EncodeParams& params,
                                             const CopyTask& copy,
                                             const Strip<D>& s, uint2 max,
                                             ColumnShared<S>* shared,
                                             float (&m)[kLaneCols]) {
  const std::byte* x = s.group->x + 2 * s.Offset(s.cols);
  if constexpr (S == Scaling::kTensor) {
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) m[c] = *copy.tensor_scale;
  } else if constexpr (S == Scaling::kBlock) {
    shared->max[s.warp][s.lane] = max;
    __syncthreads();
    QUANTD_UNROLL
    for (int w = 0; w < kTileWarps; ++w) {
      const uint2 other = shared->max[w][s.lane];
      max.x = MaxOfWords<D>(max.x, other.x);
      max.y = MaxOfWords<D>(max.y, other.y);
    }
    const int64_t row = s.row - s.warp * kStripRows;
    const int64_t left = s.group->rows - row;
    x -= 2 * s.warp * kStripRows * s.cols;
    uint32_t stored[kLaneCols];
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      const BlockScale<Scalar> scale =
          SettleBlock<S, D>(params, MagnitudeIn<D>(max, c), x + 2 * c,
                            2 * s.cols, left < 128 ? left : 128);
      m[c] = scale.m;
      stored[c] = scale.stored;
    }
    if (s.warp != 0 || !s.inside) return;
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      stored[c] = StoredScale<Scalar>(params, stored[c]);
    }
    StoreGlobal(make_uint4(stored[0], stored[1], stored[2], stored[3]),
                copy.scale + 4 * (s.col + row / 128 * copy.scale_block));
  } else {
    uint32_t codes = 0;
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      const BlockScale<Scalar> scale = SettleBlock<S, D>(
          params, MagnitudeIn<D>(max, c), x + 2 * c, 2 * s.cols, s.rows);
      m[c] = scale.m;
      codes |= scale.stored << (8 * c);
    }
    if (!copy.swizzled) {
      if (s.rows > 0 && s.inside) {
        StoreGlobal(codes, copy.scale + s.col + s.row / 32 * copy.scale_block);
      }
      return;
    }
    // A tile's scales are 512 consecutive bytes; those of padding are zeros.
    auto* const bytes = reinterpret_cast<uint8_t*>(shared->swizzled);
    QUANTD_UNROLL
    for (int c = 0; c < kLaneCols; ++c) {
      bytes[SwizzledIndex(s.lane * kLaneCols + c, s.warp, 4)] =
          static_cast<uint8_t>(codes >> (8 * c));
    }
    __syncthreads();
    const int64_t first =
        SwizzledIndex(s.col - s.lane * kLaneCols,
                      (s.row - s.warp * kStripRows) / 32, copy.blocks);
    StoreGlobal(shared->swizzled[threadIdx.x],
                copy.scale + first + 4 * threadIdx.x);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_SCALES_CUH_
