// Encodes a rowwise copy alone, by rows of the payload. Codes have the order of
// the input, and only the scales depend on groups. A thread has 8 neighbouring
// elements of 8 rows and reads 16 bytes at a time.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_

#include "kernels/cuda/encode/fp8/encode.cuh"

namespace quantd::cuda {

// Half a warp takes a patch of 8 rows and 128 columns. So it has whole blocks
// of 128, and whole words of four MX scales, without other lanes. A CTA has 4 x
// 4 patches.
inline constexpr int kPatchRows = 8;
inline constexpr int kPatchCols = 128;
inline constexpr int kPatches = kThreads / 16;
inline constexpr int kPatchesUp = 4;
inline constexpr int kPatchesAcross = kPatches / kPatchesUp;

inline constexpr int kCtaRows = kPatchRows * kPatchesUp;
inline constexpr int kCtaCols = kPatchCols * kPatchesAcross;

// A lane's rows and columns of a patch.
struct Patch {
  uint4 raw[kPatchRows];
  int64_t cols;  // K
  int64_t row;   // the first row, in the payload
  int64_t col;   // the lane's first column
  int lane;      // lane within the half warp, 0 to 15
  int rows;      // rows that exist
  bool inside;

  // The patch's first column.
  __device__ int64_t first() const { return col - lane * 8; }
};

// The address at which this lane stores one scale of kBlock or a word of four
// MX scales. nullptr if it stores none. All lanes of the warp must call this.
template <Scaling S>
__device__ __forceinline__ std::byte* PlaceOfScales(const EncodeArgs& a,
                                                    const Patch& s) {
  constexpr bool kMx = S == Scaling::kMx;
  const int r = kMx ? s.lane % 4 * 2 + (s.lane & 4) / 4 : s.lane / 2;
  const GroupTask& group = GroupOfRow(a, s.row, s.row + r);
  const bool stores = kMx ? s.lane < 8 : s.lane % 2 == 0;
  if (!stores || r >= s.rows || s.first() >= s.cols) return nullptr;
  const CopyTask& copy = group.rowwise;
  const int64_t line = s.row + r - group.row;
  return copy.scale + (kMx ? ScaleIndex(copy, line, s.first() / 32)
                           : 4 * (line + s.first() / 128 * copy.scale_block));
}

// Makes the multipliers of the rows and stores the scales. A word of `max`
// holds the maxima of two rows. All lanes of the warp must call this.
template <Scaling S, DType D>
__device__ __forceinline__ void SettleRows(const EncodeArgs& a, const Patch& s,
                                           std::byte* to,
                                           uint32_t (&max)[kPatchRows / 2],
                                           float (&m)[kPatchRows]) {
  const int base = static_cast<int>(threadIdx.x) % 32 - s.lane;
  if constexpr (S == Scaling::kBlock) {
    // Lanes 2 * r and 2 * r + 1 have the maximum of row r.
    ReduceRows<D, 16, kPatchRows / 2>(s.lane, max);
    const int r = s.lane / 2;
    const int64_t left = s.cols - s.first();
    const BlockScale<Scalar> scale = SettleBlock<S, D>(
        a.params,
        r % 2 == 0 ? LowMagnitude<D>(max[0]) : HighMagnitude<D>(max[0]),
        a.first.x + 2 * ((s.row + r) * s.cols + s.first()), 2,
        left < 128 ? left : 128);
    if (to != nullptr) {
      StoreGlobal(StoredScale<Scalar>(a.params, scale.stored), to);
    }
    QUANTD_UNROLL
    for (int i = 0; i < kPatchRows; ++i) {
      m[i] = __shfl_sync(0xFFFFFFFFu, scale.m, base + 2 * i);
    }
  } else {
    // Lane l has row 2 * (l % 4) and the next one, of block l / 4.
    ReduceRows<D, 4, kPatchRows / 2>(s.lane, max);
    const std::byte* const x =
        a.first.x +
        2 * ((s.row + s.lane % 4 * 2) * s.cols + s.first() + s.lane / 4 * 32);
    const BlockScale<Scalar> upper =
        SettleBlock<S, D>(a.params, LowMagnitude<D>(max[0]), x, 2, 32);
    const BlockScale<Scalar> lower = SettleBlock<S, D>(
        a.params, HighMagnitude<D>(max[0]), x + 2 * s.cols, 2, 32);
    // A power of two is exact as bf16.
    const uint32_t both =
        __byte_perm(__float_as_uint(upper.m), __float_as_uint(lower.m), 0x7632);
    QUANTD_UNROLL
    for (int i = 0; i < kPatchRows / 2; ++i) {
      const uint32_t two =
          __shfl_sync(0xFFFFFFFFu, both, base + (s.lane & 12) + i);
      m[2 * i] = LowOf(two);
      m[2 * i + 1] = HighOf(two);
    }
    // Exchanges two rows of one block for four blocks of one row. Blocks beyond
    // the matrix have scale 0, like padding, whatever a profile stores for
    // zeros.
    const bool is_there = s.first() + s.lane / 4 * 32 < s.cols;
    uint32_t codes = is_there ? upper.stored | lower.stored << 8 : 0;
    uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, codes, 4);
    codes = (s.lane & 4) != 0 ? __byte_perm(other, codes, 0x0051)
                              : __byte_perm(codes, other, 0x0040);
    codes &= 0xFFFFu;
    other = __shfl_xor_sync(0xFFFFFFFFu, codes, 8);
    if (to != nullptr) StoreGlobal(__byte_perm(codes, other, 0x5410), to);
  }
}

template <Scaling S, DType D, DType E>
__global__ void __launch_bounds__(kThreads, 4)
    EncodeRows(const __grid_constant__ EncodeArgs a) {
  LetNextKernelStart();
  const uint32_t across = CtasAcross(a.list, kCtaCols);
  const uint32_t band = blockIdx.x / across;
  const int64_t left_col = int64_t{blockIdx.x - band * across} * kCtaCols;

  Patch s;
  const int patch = static_cast<int>(threadIdx.x) / 16;
  s.lane = static_cast<int>(threadIdx.x) % 16;
  s.cols = a.list.cols;
  s.row = int64_t{band} * kCtaRows + patch / kPatchesAcross * kPatchRows;
  s.col = left_col + patch % kPatchesAcross * kPatchCols + s.lane * 8;
  const int64_t left = a.list.rows - s.row;
  s.rows = static_cast<int>(left < 0            ? 0
                            : left < kPatchRows ? left
                                                : kPatchRows);
  s.inside = s.col < s.cols;
  const int count = s.inside ? s.rows : 0;
  const int64_t first = s.row * s.cols + s.col;
  const std::byte* p = a.first.x + 2 * first;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows; ++i) {
    s.raw[i] = make_uint4(0, 0, 0, 0);
    if (i < count) s.raw[i] = __ldg(reinterpret_cast<const uint4*>(p));
    p += 2 * s.cols;
  }
  AwaitKernelBefore();
  // Searches for the groups while the rows are being loaded.
  std::byte* const scales = PlaceOfScales<S>(a, s);

  uint32_t max[kPatchRows / 2];
  uint32_t most = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows / 2; ++i) {
    const uint4 u = s.raw[2 * i];
    const uint4 v = s.raw[2 * i + 1];
    const uint32_t b =
        MaxOfWords<D>(MaxOfWords<D>(u.x, u.y), MaxOfWords<D>(u.z, u.w));
    const uint32_t c =
        MaxOfWords<D>(MaxOfWords<D>(v.x, v.y), MaxOfWords<D>(v.z, v.w));
    max[i] =
        MaxOfWords<D>(__byte_perm(b, c, 0x5410), __byte_perm(b, c, 0x7632));
    most = MaxOfWords<D>(most, max[i]);
  }
  if (HoldsSpecial<D>(most)) {
    uint32_t seen = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      seen |= SeenInRun<D>(a.first.x + 2 * (first + i * s.cols), 8);
    }
    Report(seen, a.seen);
  }
  float m[kPatchRows];
  SettleRows<S, D>(a, s, scales, max, m);
  std::byte* to = a.first.rowwise.data + first;
  QUANTD_UNROLL
  for (int i = 0; i < kPatchRows; ++i) {
    const uint4 r = s.raw[i];
    const uint32_t low =
        CodesOf<E>(LowOf<D>(r.x) * m[i], HighOf<D>(r.x) * m[i],
                   LowOf<D>(r.y) * m[i], HighOf<D>(r.y) * m[i]);
    const uint32_t high =
        CodesOf<E>(LowOf<D>(r.z) * m[i], HighOf<D>(r.z) * m[i],
                   LowOf<D>(r.w) * m[i], HighOf<D>(r.w) * m[i]);
    if (i < count) StoreGlobal(make_uint2(low, high), to);
    to += s.cols;
  }
}

template <Scaling S>
cudaError_t LaunchRows(const EncodeArgs& a, const Queue& queue) {
  const int64_t bands = (a.list.rows + kCtaRows - 1) / kCtaRows;
  const int64_t ctas = bands * CtasAcross(a.list, kCtaCols);
  return ForElement(a, [&](auto element) {
    return ForTwoByteType(a, [&](auto type) {
      return LaunchEarly(&EncodeRows<S, type(), element()>,
                         static_cast<unsigned>(ctas), {kThreads}, queue, a);
    });
  });
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FP8_ROWS_CUH_
