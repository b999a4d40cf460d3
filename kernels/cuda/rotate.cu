#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

template <DType D>
__device__ __forceinline__ void StoreBlockNumber(int64_t b,
                                                 const float (&v)[kBlock],
                                                 std::byte* out) {
  StoreBlock<D>(Encode<D>(v), out + b * kBlock * kSizeOf<D>);
}

// The output type is a run-time choice: it changes only the last instructions.
template <DType D>
__global__ void __launch_bounds__(kThreads) RotateBlocks(RotateArgs a) {
  const int64_t blocks = a.x.rows * (a.x.cols / kBlock);
  uint32_t seen = 0;
  for (int64_t b = FirstItem(); b < blocks; b += ItemStep()) {
    float v[kBlock];
    Decode<D>(LoadBlock<D>(a.x.data + b * kBlock * kSizeOf<D>), v);
    seen |= SeenIn(v, MaxMagnitude<Scalar>(v));
    if (a.inverse) {
      RotateInverse<Scalar>(v, a.signs);
    } else {
      RotateForward<Scalar, kIsHalf<D>>(v, a.signs);
    }
    if (a.dtype == DType::kF32) {
      StoreBlockNumber<DType::kF32>(b, v, a.out);
    } else if (a.dtype == DType::kF16) {
      StoreBlockNumber<DType::kF16>(b, v, a.out);
    } else {
      StoreBlockNumber<DType::kBF16>(b, v, a.out);
    }
  }
  Report(seen, a.found);
}

// Rotates blocks of N, one a thread. The matrix is a row of blocks.
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

unsigned CtasFor(const RotateArgs& a, const Queue& queue) {
  return GridForBlocks(a.x.rows * (a.x.cols / a.dimension), queue);
}

}  // namespace

cudaError_t LaunchRotateBlocks(const RotateArgs& a, const Queue& queue) {
  return ForDType(a.x.dtype, [&](auto d) {
    RotateBlocks<d()><<<CtasFor(a, queue), kThreads, 0, queue.stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t LaunchRotateSpans(const RotateArgs& a, const Queue& queue) {
  return ForDType(a.x.dtype, [&](auto d) {
    constexpr DType D = d();
    return ForSpanSize(a.dimension, [&](auto size) {
      if constexpr (size() == kBlock) {
        return cudaErrorInvalidValue;  // RotateBlocks's
      } else {
        RotateSpans<D, size()>
            <<<CtasFor(a, queue), kThreads, 0, queue.stream>>>(a);
        return cudaGetLastError();
      }
    });
  });
}

}  // namespace quantd::cuda
