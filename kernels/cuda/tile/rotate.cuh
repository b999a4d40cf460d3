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

// The matrix of a rotation as two operands of eight columns. The two products
// together give a lane four neighbouring columns, from 4 (lane % 4) on.
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
        const int j = column / 2 * 4 + 2 * n + column % 2;
        words[n][half] = PackBf16(Entry(signs, i, j), Entry(signs, i + 1, j));
      }
    }
  }

  // Rotates sixteen blocks. Each lane has a part of each block: y[n] holds
  // elements 2n and 2n + 1 of this lane's four: of block lane / 4, then of
  // block lane / 4 + 8.
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
    const uint32_t part = base_ + lane / 4 * 32 + lane / 16 * 16;
    quarter_ = Kept(part ^ lane % 4 * 8);
    piece_ = Kept(part + lane % 4 * 4);
    least_ = Kept(base_ + 1024 + lane * 4);
    own_least_ = Kept(base_ + 1024 + lane * 16);
  }

  // The address of block `lane`, for BlockAt.
  __device__ __forceinline__ uint32_t own() const { return own_; }
  // Addresses in block 8 * eighth + lane / 4: of quarter lane % 4, eight bytes,
  // and of quarter lane % 4 of a half, four bytes.
  __device__ __forceinline__ uint32_t quarter(int eighth) const {
    return quarter_ + 256 * eighth;
  }
  __device__ __forceinline__ uint32_t piece(int half, int eighth) const {
    return (piece_ ^ half * 16) + 256 * eighth;
  }
  // The address of byte `at` of block b.
  __device__ __forceinline__ uint32_t any(uint32_t b, uint32_t at) const {
    return (base_ + b * 32 + b / 4 % 2 * 16) ^ at;
  }
  // SetLeast stores a word of two magnitudes. The smaller one is the least of
  // quarter lane % 4 of block 8 * eighth + lane / 4. least() returns the words
  // of the four quarters of block `lane`.
  __device__ __forceinline__ void SetLeast(int eighth, uint32_t least) const {
    StoreShared(least_ + 128 * eighth, least);
  }
  __device__ __forceinline__ uint4 least() const {
    return LoadShared4(own_least_);
  }

 private:
  uint32_t base_;
  uint32_t own_;
  uint32_t quarter_;
  uint32_t piece_;
  uint32_t least_;
  uint32_t own_least_;
};

// The smaller half of a word.
__device__ __forceinline__ uint32_t SmallerHalf(uint32_t word) {
  const uint32_t low = word & 0xFFFFu;
  const uint32_t high = word >> 16;
  return low < high ? low : high;
}

// The smaller of two magnitudes in each half, minus one. Zeros wrap around, so
// they count as the largest.
__device__ __forceinline__ uint32_t LeastNonzero(uint32_t a, uint32_t b) {
  return __viaddmin_u16x2(
      a & 0x7FFF7FFFu, 0xFFFFFFFFu,
      __viaddmin_u16x2(b & 0x7FFF7FFFu, 0xFFFFFFFFu, 0xFFFFFFFFu));
}

// The least magnitude, as a bf16, that a block may hold to be rotated exactly.
// `max` is the block's largest magnitude after the rotation, as fp32 bits. A
// quarter of a number near the smallest normal one may lose bits, so such
// numbers never count as exact.
__device__ __forceinline__ uint32_t LeastExact(uint32_t max) {
  const int exponent = static_cast<int>(max >> 23);
  return static_cast<uint32_t>(exponent < 41 ? 28 : exponent - 13) << 7;
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

// Rotates a warp's 32 blocks. All lanes must call this. Each lane gets block
// lane % 32, rotated and rounded to bf16, and its largest magnitude as fp32
// bits. `source` has two functions:
//   Load(h, x)  this lane's parts of blocks 16h and up, as rows of a fragment
//               for tensor cores
//   Bits(b, i)  element i of block b, a bf16
template <typename Source>
__device__ __forceinline__ Words Rotate(const Source& source,
                                        const Rotation& rotation,
                                        const float* signs,
                                        const Exchange& exchange,
                                        uint32_t* max) {
  __syncwarp();  // waits until the previous content has been read
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    source.Load(h, x);
    float y[2][4];
    rotation.Apply(x, y);
    QUANTD_UNROLL
    for (int k = 0; k < 2; ++k) {
      StoreShared(exchange.quarter(2 * h + k),
                  make_uint2(PackBf16(y[0][2 * k], y[0][2 * k + 1]),
                             PackBf16(y[1][2 * k], y[1][2 * k + 1])));
      exchange.SetLeast(2 * h + k, MinOfWords(x[k], x[k + 2]));
    }
  }
  __syncwarp();
  Words out = BlockAt(exchange.own());
  *max = LargerHalf(LargestOf(out.w));
  uint4 l = exchange.least();
  const uint32_t limit = LeastExact(*max);
  const uint32_t least = SmallerHalf(
      MinOfWords(MinOfWords(l.x, l.y), MinOfWords(l.z, l.w)) & 0x7FFF7FFFu);
  if (!__any_sync(0xFFFFFFFFu, least < limit)) return out;

  // Zeros are exact, so the test is repeated without them.
  __syncwarp();
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    source.Load(h, x);
    QUANTD_UNROLL
    for (int k = 0; k < 2; ++k) {
      exchange.SetLeast(2 * h + k, LeastNonzero(x[k], x[k + 2]));
    }
  }
  __syncwarp();
  l = exchange.least();
  const uint32_t nonzero =
      SmallerHalf(__vminu2(__vimin3_u16x2(l.x, l.y, l.z), l.w));
  const uint32_t again = __ballot_sync(0xFFFFFFFFu, nonzero + 1 < limit);
  if (again == 0) return out;
  RotateInOrder(again, signs, source, exchange);
  out = BlockAt(exchange.own());
  *max = LargerHalf(LargestOf(out.w));
  return out;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_ROTATE_CUH_
