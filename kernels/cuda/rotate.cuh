// Rotations of bf16 blocks through the tensor cores, 32 blocks of a warp at a
// time.
//
// kernels/FORMATS.md fixes the order in which a rotation adds, and the tensor
// cores add in one of their own. But where no addition rounds the order does
// not matter, and that is nearly everywhere: bf16 have eight bits, fp32
// sums 24. With y the rotated block and M its largest magnitude, norm(x) =
// norm(y) <= 4 M bounds every sum of some of the terms +-x_i / 4, so all are
// exact when the last bit of the smallest nonzero x_i / 4 is at least 4 M *
// 2^-24. Blocks that hold a smaller number are rotated again, in order.
#ifndef QUANTD_KERNELS_CUDA_ROTATE_CUH_
#define QUANTD_KERNELS_CUDA_ROTATE_CUH_

#include "kernels/cuda/packed.cuh"

namespace quantd::cuda {

// The matrix as two operands of eight columns. A lane's columns of both
// products are four neighbouring ones: 4 (lane % 4) and up.
struct Rotation {
  uint32_t words[2][2];

  // Of `signs` s[i] / 4. `neighbours`: a lane's elements of a block are four
  // neighbouring ones, too, and not two and the two eight further.
  __device__ __forceinline__ Rotation(const float (&signs)[kBlock],
                                      bool neighbours) {
    const int column = threadIdx.x % 32 / 4;
    const int quarter = threadIdx.x % 4;
    QUANTD_UNROLL
    for (int n = 0; n < 2; ++n) {
      QUANTD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int i =
            neighbours ? 4 * quarter + 2 * half : 2 * quarter + 8 * half;
        const int j = column / 2 * 4 + 2 * n + column % 2;
        words[n][half] = PackBf16(Entry(signs, i, j), Entry(signs, i + 1, j));
      }
    }
  }

  // Sixteen blocks, of which this lane has parts: y[n] are elements 2n and 2n +
  // 1 of its four of block lane / 4, then of that plus 8.
  __device__ __forceinline__ void Apply(const uint32_t (&x)[4],
                                        float (&y)[2][4]) const {
    QUANTD_UNROLL
    for (int n = 0; n < 2; ++n) {
      y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0.0f;
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
          " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(y[n][0]), "+f"(y[n][1]), "+f"(y[n][2]), "+f"(y[n][3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(words[n][0]),
            "r"(words[n][1]));
    }
  }

 private:
  static __device__ __forceinline__ float Entry(const float (&signs)[kBlock],
                                                int i, int j) {
    const float sign = signs[i];
    return __popc(i & j) % 2 == 0 ? sign : -sign;
  }
};

// Four 8 x 8 pieces of 16-bit elements from shared memory, `address` being
// that of one row; transposed, or as they are.
template <bool kTransposed>
__device__ __forceinline__ void LoadPieces(uint32_t address, uint32_t (&w)[4]) {
  if constexpr (kTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
        : "r"(address));
  } else {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
        : "r"(address));
  }
}

// Where parts of 32 blocks become whole ones: shared memory of one warp.
struct alignas(16) Exchange {
  uint4 halves[kWarp][2];  // exchanged in four of eight blocks, for the banks
  uint4 least[kWarp];

  __device__ __forceinline__ uint4* half(int block, int i) {
    return &halves[block][i ^ (block / 4 % 2)];
  }
  __device__ __forceinline__ Words block(int b) {
    const uint4 low = *half(b, 0);
    const uint4 high = *half(b, 1);
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
};

// Magnitudes of halves, less one: zeros are the largest.
__device__ __forceinline__ uint32_t LeastOf(uint32_t a, uint32_t b) {
  const uint32_t one = (a & 0x7FFF7FFFu);
  const uint32_t other = (b & 0x7FFF7FFFu);
  return __viaddmin_u16x2(one, 0xFFFFFFFFu,
                          __viaddmin_u16x2(other, 0xFFFFFFFFu, 0xFFFFFFFFu));
}

// Rotates the blocks of a warp's mask anew and in order, two at a time: a lane
// is an element.
template <typename Element>
__device__ __noinline__ void RotateInOrder(uint32_t again, const float* signs,
                                           Element element,
                                           Exchange* exchange) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  while (again != 0) {
    const int first = __ffs(static_cast<int>(again)) - 1;
    again &= again - 1;
    const int second = again != 0 ? __ffs(static_cast<int>(again)) - 1 : first;
    again &= again - 1;
    const int b = lane < kBlock ? first : second;
    const int i = lane % kBlock;
    float v = Scalar::MulPlusZero(element(b, i), signs[i]);
    QUANTD_UNROLL
    for (int stride = 1; stride < kBlock; stride *= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFFu, v, stride);
      v = (i & stride) == 0 ? v + other : other - v;
    }
    reinterpret_cast<uint16_t*>(exchange->half(b, i / 8))[i % 8] =
        static_cast<uint16_t>(PackBf16(v, v));
  }
}

// The whole warp calls this with its parts of 32 blocks: x[0] of the first 16,
// x[1] of the others, as Rotation::Apply wants them. Returns block lane % 32,
// rotated and rounded to bf16, and its largest magnitude as fp32 bits.
// `element(b, i)` reads the parts' source again: bf16 number i of block b.
template <typename Element>
__device__ __forceinline__ Words Rotate(const uint32_t (&x)[2][4],
                                        const Rotation& rotation,
                                        const float (&signs)[kBlock],
                                        const Element& element,
                                        Exchange* exchange, uint32_t* max) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int quarter = lane % 4;
  __syncwarp();  // the blocks before have been read
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    float y[2][4];
    rotation.Apply(x[h], y);
    QUANTD_UNROLL
    for (int k = 0; k < 2; ++k) {
      const int b = 16 * h + 8 * k + lane / 4;
      reinterpret_cast<uint2*>(exchange->half(b, quarter / 2))[quarter % 2] =
          make_uint2(PackBf16(y[0][2 * k], y[0][2 * k + 1]),
                     PackBf16(y[1][2 * k], y[1][2 * k + 1]));
      reinterpret_cast<uint32_t*>(&exchange->least[b])[quarter] =
          LeastOf(x[h][k], x[h][k + 2]);
    }
  }
  __syncwarp();
  Words out = exchange->block(lane);
  *max = LargerHalf(LargestOf(out.w));
  const uint4 l = exchange->least[lane];
  const uint32_t pair = __vminu2(__vimin3_u16x2(l.x, l.y, l.z), l.w);
  const uint32_t least = min(pair & 0xFFFFu, pair >> 16);
  // In units of bf16's last place: M's exponent less 12. Numbers near the
  // smallest normal ones, whose quarters may have fewer bits, are not asked
  // for.
  const int exponent = static_cast<int>(*max >> 23);
  const int limit = (exponent < 40 ? 28 : exponent - 12) * 128 - 1;
  const uint32_t again =
      __ballot_sync(0xFFFFFFFFu, static_cast<int>(least) < limit);
  if (again == 0) return out;
  RotateInOrder(again, signs, element, exchange);
  __syncwarp();
  out = exchange->block(lane);
  *max = LargerHalf(LargestOf(out.w));
  return out;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ROTATE_CUH_
