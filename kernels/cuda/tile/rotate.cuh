// Rotates bf16 blocks with the tensor cores, 32 blocks of a warp at a time.
//
// kernels/plan/FORMATS.md fixes the order of a rotation's additions, and tensor
// cores add in a different order. The order does not matter if no addition
// rounds. That is nearly always so, because bf16 numbers have 8 bits and fp32
// sums have 24. Let M be the largest magnitude of the rotated block. Every
// intermediate value of a butterfly is a mean of rotated elements with signs,
// so it is at most M. Sums of 4 or 8 neighbouring products, which tensor cores
// may add first, are at most M, too. Sums of two such sums are at most 2 M. All
// these values are multiples of the last place of the smallest nonzero x_i / 4.
// They are exact if 2 M needs at most 24 bits above this place. Blocks with
// smaller numbers are rotated again, in order.
#ifndef QUANTD_KERNELS_CUDA_TILE_ROTATE_CUH_
#define QUANTD_KERNELS_CUDA_TILE_ROTATE_CUH_

#include "kernels/cuda/ptx/fragments.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/packed.cuh"

namespace quantd::cuda {

// The matrix of a rotation as two operands of eight columns.
struct Rotation {
  uint32_t words[2][2];

  // `signs` are s[i] / 4.
  __device__ __forceinline__ explicit Rotation(const float (&signs)[kBlock]) {
    const int column = static_cast<int>(threadIdx.x % kWarp / 4);
    const int quarter = static_cast<int>(threadIdx.x % 4);
    QUANTD_UNROLL
    for (int n = 0; n < 2; ++n) {
      QUANTD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int i = 2 * quarter + 8 * half;
        const int j = 8 * n + column;
        words[n][half] = PackBf16(Entry(signs, i, j), Entry(signs, i + 1, j));
      }
    }
  }

  // Rotates sixteen blocks. y[n] holds elements 8n + lane % 4 * 2 and the next:
  // of block lane / 4, then of block lane / 4 + 8.
  __device__ __forceinline__ void Apply(const uint32_t (&x)[4],
                                        float (&y)[2][4]) const {
    QUANTD_UNROLL
    for (int n = 0; n < 2; ++n) {
      Multiply<DType::kBF16>(x, words[n][0], words[n][1], y[n]);
    }
  }

 private:
  static __device__ __forceinline__ float Entry(const float (&signs)[kBlock],
                                                int i, int j) {
    const float sign = signs[i];
    return __popc(i & j) % 2 == 0 ? sign : -sign;
  }
};

// Loads a block whose halves are neighbours; `at` is the address of the first
// half.
__device__ __forceinline__ Words BlockAt(uint32_t at) {
  const uint4 low = LoadShared4(at);
  const uint4 high = LoadShared4(at ^ 16);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

// Shared memory of one warp in which the parts of 32 blocks are joined, and
// this lane's addresses in it. In four of every eight blocks the halves are
// swapped, to avoid bank conflicts.
class Exchange {
 public:
  struct alignas(128) Storage {
    uint4 halves[kWarp][2];
    uint32_t least[kWarp][4];  // of each quarter, see SetLeast
  };

  __device__ __forceinline__ explicit Exchange(Storage* storage)
      : base_(SharedAddress(storage)) {
    const uint32_t lane = threadIdx.x % kWarp;
    own_ = Kept(base_ + lane * 32 + lane / 4 % 2 * 16);
    const uint32_t block = lane / 16 * 8 + lane % 8;
    halves_ = Kept(base_ + block * 32 + (lane / 8 ^ block / 4) % 2 * 16);
    least_ = Kept(base_ + 1024 + lane * 16);
  }

  // The address of block `lane`, for BlockAt.
  __device__ __forceinline__ uint32_t own() const { return own_; }
  // Stores parts of blocks 16h and up, as fragments of a row for each block:
  // the two halves of the first eight blocks, then of the next eight.
  __device__ __forceinline__ void SetHalves(int h,
                                            const uint32_t (&f)[4]) const {
    StoreFragmentsAt(halves_ + 512 * h, f);
  }
  // The address of byte `at` of block b.
  __device__ __forceinline__ uint32_t any(uint32_t b, uint32_t at) const {
    return (base_ + b * 32 + b / 4 % 2 * 16) ^ at;
  }
  // SetLeast stores words of two magnitudes. The smaller one of word i is the
  // least of quarter lane % 4 of block 8i + lane / 4. least() returns the words
  // of the four quarters of block `lane`.
  __device__ __forceinline__ void SetLeast(const uint32_t (&least)[4]) const {
    StoreFragmentsAt(least_, least);
  }
  __device__ __forceinline__ uint4 least() const { return LoadShared4(least_); }

 private:
  uint32_t base_;
  uint32_t own_;
  uint32_t halves_;
  uint32_t least_;
};

// The smaller of two magnitudes in each half, minus one. Zeros wrap around, so
// they count as the largest.
__device__ __forceinline__ uint32_t LeastNonzero(uint32_t a, uint32_t b) {
  return __viaddmin_u16x2(
      a & 0x7FFF7FFFu, 0xFFFFFFFFu,
      __viaddmin_u16x2(b & 0x7FFF7FFFu, 0xFFFFFFFFu, 0xFFFFFFFFu));
}

// The least magnitude that a block may hold to be rotated exactly, as fp32
// bits. `max` is the block's largest magnitude after the rotation. A quarter of
// a number near the smallest normal one may lose bits, so such numbers never
// count as exact.
__device__ __forceinline__ uint32_t LeastExact(uint32_t max) {
  constexpr int kPlaces = 13;
  return static_cast<uint32_t>(__viaddmax_s32(
      static_cast<int>(max & 0x7F800000u), -(kPlaces << 23), 28 << 23));
}
// Whether both magnitudes of a word of bf16 are at least `least`, a power of
// two as fp32 bits.
__device__ __forceinline__ bool ReachBoth(uint32_t word, uint32_t least) {
  // (The low half only adds places below those of the high one.)
  const float low = fabsf(LowOf(word));
  const float high = fabsf(__uint_as_float(word));
  return fminf(low, high) >= __uint_as_float(least);
}

// Rotates the blocks in the mask `again` once more, in order. Takes two blocks
// at a time, with an element in each lane. All lanes must call this.
template <typename Source>
__device__ __forceinline__ void RotateInOrder(uint32_t again,
                                              const float* signs,
                                              const Source& source,
                                              const Exchange& exchange) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t i = lane % kBlock;
  while (again != 0) {
    const int first = __ffs(static_cast<int>(again)) - 1;
    again &= again - 1;
    const int second = again != 0 ? __ffs(static_cast<int>(again)) - 1 : first;
    again &= again - 1;
    const int b = lane < kBlock ? first : second;
    float v = Scalar::MulPlusZero(LowOf(source.Bits(b, i)), signs[i]);
    QUANTD_UNROLL
    for (uint32_t stride = 1; stride < kBlock; stride *= 2) {
      const float other =
          __shfl_xor_sync(0xFFFFFFFFu, v, static_cast<int>(stride));
      v = (i & stride) == 0 ? v + other : other - v;
    }
    StoreShared16(exchange.any(b, i * 2), PackBf16(v, v) & 0xFFFFu);
  }
  __syncwarp();
}

// A source of a warp's 32 blocks has two functions:
//   Load(h, x)  this lane's parts of blocks 16h and up, as rows of a fragment
//               for tensor cores
//   Bits(b, i)  element i of block b, a bf16

// Rotates a warp's 32 blocks. All lanes must call this. Each lane gets block
// lane % 32, rotated and rounded to bf16, and its largest magnitude as fp32
// bits. If `*exact` is false in any lane, MakeExact must be called.
template <typename Source>
__device__ __forceinline__ Words Rotate(const Source& source,
                                        const Rotation& rotation,
                                        const Exchange& exchange, uint32_t* max,
                                        bool* exact) {
  uint32_t halves[2][4];
  uint32_t least[2];  // of the halves of this lane's words
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    source.Load(h, x);
    float y[2][4];
    rotation.Apply(x, y);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      halves[h][i] = PackBf16(y[i % 2][i / 2 * 2], y[i % 2][i / 2 * 2 + 1]);
    }
    least[h] = MinOfWords(MinOfWords(x[0], x[1]), MinOfWords(x[2], x[3]));
  }
  __syncwarp();  // waits until the previous content has been read
  exchange.SetHalves(0, halves[0]);
  exchange.SetHalves(1, halves[1]);
  __syncwarp();
  const Words out = BlockAt(exchange.own());
  *max = LargestMagnitudeOf(out);
  // The largest magnitude of all blocks takes fewer instructions than that of
  // each block.
  const uint32_t most = __reduce_max_sync(0xFFFFFFFFu, *max);
  *exact = ReachBoth(MinOfWords(least[0], least[1]), LeastExact(most));
  return out;
}

// Rotates those of a warp's 32 blocks again, in order, whose rotation may not
// have been exact. `max` is the largest magnitude of this lane's rotated block.
// Returns a mask of these blocks, which are then in the exchange. All lanes
// must call this.
template <typename Source>
__device__ __forceinline__ uint32_t MakeExact(const Source& source,
                                              const float* signs,
                                              const Exchange& exchange,
                                              uint32_t max) {
  uint32_t least[4];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    source.Load(h, x);
    // Zeros are exact.
    least[2 * h] = LeastNonzero(x[0], x[2]);
    least[2 * h + 1] = LeastNonzero(x[1], x[3]);
  }
  __syncwarp();  // waits until the previous content has been read
  exchange.SetLeast(least);
  __syncwarp();
  const uint4 n = exchange.least();
  const uint32_t two = __vminu2(__vimin3_u16x2(n.x, n.y, n.z), n.w);
  const uint32_t nonzero = min(two & 0xFFFFu, two >> 16);
  const uint32_t again =
      __ballot_sync(0xFFFFFFFFu, nonzero + 1 < LeastExact(max) >> 16);
  if (again != 0) RotateInOrder(again, signs, source, exchange);
  return again;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ROTATE_CUH_
