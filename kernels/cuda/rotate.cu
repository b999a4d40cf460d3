#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/tile/span.cuh"
#include "kernels/cuda/tile/warp_quads.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

// Rotates a block of sixteen values.
template <DType D, bool kInverse>
__device__ __forceinline__ void RotateSixteen(const RotateArgs& a,
                                              float (&v)[kBlock]) {
  if constexpr (kInverse) {
    RotateInverse<Scalar>(v, a.sixteen);
  } else {
    RotateForward<Scalar, kIsHalf<D>>(v, a.sixteen);
  }
}

// Blocks that a thread loads before it rotates the first one.
template <DType D>
inline constexpr int kBlocksAtOnce = 8 / kSizeOf<D>;

// Rotates blocks of sixteen values. A warp stores 32 neighbouring blocks
// through shared memory, so that it writes whole sectors.
template <DType D, DType Out, bool kInverse>
__global__ void __launch_bounds__(kThreads)
    RotateBlocks(const __grid_constant__ RotateArgs a) {
  constexpr int kAtOnce = kBlocksAtOnce<D>;
  constexpr int kQuads = kSizeOf<Out>;
  __shared__ WarpBlocks<Out> shared[kThreads / kWarp];
  LetNextKernelStart();
  const int64_t blocks = a.x.rows * (a.x.cols / kBlock);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t warp = FirstItem() / kWarp;
  const int64_t first = warp * (kAtOnce * kWarp);
  RawBlock<D> raw[kAtOnce] = {};
  QUANTD_UNROLL
  for (int i = 0; i < kAtOnce; ++i) {
    const int64_t b = first + i * kWarp + lane;
    if (b < blocks) raw[i] = LoadBlock<D>(a.x.data + b * kBlock * kSizeOf<D>);
  }
  AwaitKernelBefore();
  uint32_t seen = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kAtOnce; ++i) {
    float v[kBlock];
    Decode<D>(raw[i], v);
    const uint32_t max = MaxMagnitude<Scalar>(v);
    if (max >= kInfBits) seen |= SeenIn(v, max);
    RotateSixteen<D, kInverse>(a, v);
    uint4* const quads = shared[threadIdx.x / kWarp].quads[i % 2];
    PutBlock<Out>(quads, lane, Encode<Out>(v).words);
    __syncwarp();
    const int64_t left = blocks - (first + i * kWarp);
    auto* const to = reinterpret_cast<uint4*>(
        a.out + (first + i * kWarp) * (kBlock * kSizeOf<Out>));
    QUANTD_UNROLL
    for (int j = 0; j < kQuads; ++j) {
      const int number = kWarp * j + lane;
      const uint4 quad =
          quads[QuadIndex<Out>(number / kQuads, number % kQuads)];
      if (number / kQuads < left) to[number] = quad;
    }
  }
  Report(seen, a.found);
}

// Rotates blocks of N values, one in each thread. Treats the matrix as one row
// of blocks.
template <DType D, int N>
__global__ void __launch_bounds__(kThreads) RotateSpans(RotateArgs a) {
  const GroupTask run = {a.x.data, 0, 1};
  const int64_t elements = a.x.rows * a.x.cols;
  const GroupTask out = {a.out, 0, 1};
  uint32_t seen = 0;
  for (int64_t b = FirstItem(); b < elements / N; b += ItemStep()) {
    float v[N];
    LoadSpan<D>(run, elements, false, 0, b * N, v);
    uint32_t max, clean;
    FindMaxima<Scalar>(v, N, &max, &clean);
    seen |= SeenIn(max, clean);
    if (a.inverse) {
      RotateInverseOf<Scalar>(v, N, a.signs);
    } else {
      RotateForwardOf<Scalar>(v, N, a.signs);
    }
    if (a.dtype == DType::kF32) {
      StoreSpan<DType::kF32>(out, elements, false, 0, b * N, v);
    } else if (a.dtype == DType::kF16) {
      StoreSpan<DType::kF16>(out, elements, false, 0, b * N, v);
    } else {
      StoreSpan<DType::kBF16>(out, elements, false, 0, b * N, v);
    }
  }
  Report(seen, a.found);
}

// --- launchers --------------------------------------------------------------

template <DType D, DType Out>
cudaError_t LaunchBlocks(const RotateArgs& a, const Queue& queue) {
  constexpr int64_t kPerCta = int64_t{kThreads} * kBlocksAtOnce<D>;
  const int64_t blocks = a.x.rows * (a.x.cols / kBlock);
  const auto kernel =
      a.inverse ? &RotateBlocks<D, Out, true> : &RotateBlocks<D, Out, false>;
  return LaunchEarly(kernel,
                     static_cast<unsigned>((blocks + kPerCta - 1) / kPerCta),
                     {kThreads}, queue, a);
}

}  // namespace

cudaError_t LaunchRotateBlocks(const RotateArgs& a, const Queue& queue) {
  return ForDType(a.x.dtype, [&](auto in) {
    return ForDType(
        a.dtype, [&](auto out) { return LaunchBlocks<in(), out()>(a, queue); });
  });
}

cudaError_t LaunchRotateSpans(const RotateArgs& a, const Queue& queue) {
  const int64_t elements = a.x.rows * a.x.cols;
  return ForDType(a.x.dtype, [&](auto d) {
    constexpr DType D = d();
    return ForSpanSize(a.dimension, [&](auto size) {
      if constexpr (size() == kBlock) {
        return cudaErrorInvalidValue;  // RotateBlocks rotates these
      } else {
        RotateSpans<D, size()><<<GridForBlocks(elements / a.dimension, queue),
                                 kThreads, 0, queue.stream>>>(a);
        return cudaGetLastError();
      }
    });
  });
}

}  // namespace quantd::cuda
