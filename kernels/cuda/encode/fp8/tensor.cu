#include "kernels/cuda/encode/fp8/encode.cuh"

namespace quantd::cuda {
namespace {

// The rowwise copy alone under a tensor's scale: neither tiles nor blocks
// matter, and the payload is one long row, of which a CTA takes as much as a
// tile has.
constexpr int64_t kPerCta = kTileSide * kTileSide;
constexpr int kRun = 8;  // elements of one load
constexpr int kRuns = kPerCta / (kThreads * kRun);

template <DType E>
__device__ __forceinline__ void EncodeRun(uint4 r, float m, std::byte* to) {
  const uint32_t low = CodesOf<E>(LowOf(r.x) * m, HighOf(r.x) * m,
                                  LowOf(r.y) * m, HighOf(r.y) * m);
  const uint32_t high = CodesOf<E>(LowOf(r.z) * m, HighOf(r.z) * m,
                                   LowOf(r.w) * m, HighOf(r.w) * m);
  StoreGlobal(make_uint2(low, high), to);
}

// A thread takes every kThreads-th load of its CTA.
template <DType E>
__global__ void __launch_bounds__(kThreads)
    EncodeRuns(const __grid_constant__ EncodeArgs a) {
  const int64_t cols = a.list.cols;
  const int64_t first = blockIdx.x * kPerCta + threadIdx.x * kRun;
  const int64_t end = a.list.rows * cols;
  const std::byte* const x = a.first.x + 2 * first;
  std::byte* const to = a.first.rowwise.data + first;
  uint4 raw[kRuns];
  uint32_t max = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kRuns; ++i) {
    const int at = i * kThreads * kRun;
    raw[i] = make_uint4(0, 0, 0, 0);
    if (first + at < end) {
      raw[i] = __ldg(reinterpret_cast<const uint4*>(x + 2 * at));
    }
  }
  const GroupTask* group = &a.first;
  if (a.list.count > 1) {
    const int64_t row = blockIdx.x * kPerCta / cols;
    group = &GroupOfRow(a, row, row);
  }
  if ((blockIdx.x + 1) * kPerCta <= (group->row + group->rows) * cols ||
      a.list.count == 1) {
    const float m = *group->rowwise.tensor_scale;
    QUANTD_UNROLL
    for (int i = 0; i < kRuns; ++i) {
      const int at = i * kThreads * kRun;
      if (first + at < end) EncodeRun<E>(raw[i], m, to + at);
    }
  } else {
    // There are several groups, each with a scale of its own.
#pragma unroll 1
    for (int at = 0; at < kPerCta; at += kThreads * kRun) {
      const int64_t row = (first + at) / cols;
      group = &GroupOfRow(a, blockIdx.x * kPerCta / cols, row);
      if (first + at >= end) continue;
      EncodeRun<E>(__ldg(reinterpret_cast<const uint4*>(x + 2 * at)),
                   *group->rowwise.tensor_scale, to + at);
    }
  }
  QUANTD_UNROLL
  for (const uint4& r : raw) {
    max =
        MaxOfWords(max, MaxOfWords(MaxOfWords(r.x, r.y), MaxOfWords(r.z, r.w)));
  }
  if (!HoldsSpecial(max)) return;
  uint32_t seen = 0;
#pragma unroll 1
  for (int at = 0; at < kPerCta; at += kThreads * kRun) {
    if (first + at < end) seen |= SeenInRun(x + 2 * at, kRun);
  }
  Report(seen, a.seen);
}

template <DType E>
cudaError_t LaunchRuns(const EncodeArgs& a, const Queue& queue) {
  const int64_t ctas = (a.list.rows * a.list.cols + kPerCta - 1) / kPerCta;
  EncodeRuns<E><<<static_cast<unsigned>(ctas), kThreads, 0, queue.stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

template cudaError_t LaunchFp8Tiles<Scaling::kTensor>(const EncodeArgs&,
                                                      const Queue&);

cudaError_t LaunchFp8Runs(const EncodeArgs& a, const Queue& queue) {
  return a.params.element == DType::kE4M3 ? LaunchRuns<DType::kE4M3>(a, queue)
                                          : LaunchRuns<DType::kE5M2>(a, queue);
}

}  // namespace quantd::cuda
