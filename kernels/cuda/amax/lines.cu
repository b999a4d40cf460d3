// Finds the maxima of groups and of their lines in one read of the input.
// Nothing is rotated, and rows are a multiple of 16 bytes.
//
// Magnitudes are compared as bits: NaN is above Inf, and Inf above all numbers.
// A CTA that finds Inf or NaN searches its elements again, span by span.
#include "kernels/cuda/amax/spans.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"

namespace quantd::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int kQuads = 4;  // quads (16 bytes) of a lane in a row
constexpr int kRowsOfWarp = kTileSide / kWarps;

// Functions for the magnitudes in a word: two, or one of fp32.
template <DType D>
struct Magnitude {
  static constexpr bool kTwo = kSizeOf<D> == 2;
  static constexpr uint32_t kMask = kTwo ? 0x7FFF7FFFu : kAbsMask;
  // The bits of Inf.
  static constexpr uint32_t kInf = D == DType::kBF16  ? 0x7F80u
                                   : D == DType::kF16 ? 0x7C00u
                                                      : kInfBits;

  static __device__ __forceinline__ uint32_t Larger(uint32_t a, uint32_t b) {
    return kTwo ? __vmaxu2(a, b) : max(a, b);
  }
  // The larger magnitude of a word.
  static __device__ __forceinline__ uint32_t Of(uint32_t word) {
    return kTwo ? max(word & 0xFFFFu, word >> 16) : word;
  }
  // Converts an element to fp32 bits.
  static __device__ __forceinline__ uint32_t Float(uint32_t bits) {
    return __float_as_uint(DecodeElement<D>(bits));
  }
};

template <DType D>
__device__ __forceinline__ uint4 Magnitudes(uint4 q) {
  constexpr uint32_t kMask = Magnitude<D>::kMask;
  return make_uint4(q.x & kMask, q.y & kMask, q.z & kMask, q.w & kMask);
}
template <DType D>
__device__ __forceinline__ uint4 Larger(uint4 a, uint4 b) {
  using M = Magnitude<D>;
  return make_uint4(M::Larger(a.x, b.x), M::Larger(a.y, b.y),
                    M::Larger(a.z, b.z), M::Larger(a.w, b.w));
}

// Elements of a lane's quad, and columns of a CTA.
template <DType D>
inline constexpr int kPerQuad = 16 / kSizeOf<D>;
template <DType D>
inline constexpr int kCtaColumns = kWarp* kQuads* kPerQuad<D>;

// Searches 128 rows and kCtaColumns columns of a group in each CTA. A warp
// takes every eighth row.
template <DType D, bool kColumns>
__global__ void __launch_bounds__(kThreads)
    AmaxOfLines(const __grid_constant__ SpanAmaxArgs a) {
  using M = Magnitude<D>;
  __shared__ uint4 columns[kColumns ? kWarps : 1][kQuads * kWarp];
  __shared__ uint32_t warps[kWarps];  // each warp's maximum
  LetNextKernelStart();
  const auto across = static_cast<uint32_t>((a.list.cols + kCtaColumns<D> - 1) /
                                            kCtaColumns<D>);
  const uint32_t chunk = blockIdx.x / across;
  const int64_t left = int64_t{blockIdx.x - chunk * across} * kCtaColumns<D>;
  const int64_t g = FindEntry(a.list.chunks, a.list.count, chunk);
  const GroupTask& group = a.list.groups[g];
  const int64_t top = (chunk - a.list.chunks[g]) * kTileSide;
  const int64_t rest = group.rows - top;
  const int rows = static_cast<int>(rest < kTileSide ? rest : kTileSide);

  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t first = left + lane * kPerQuad<D>;
  const auto* const x = reinterpret_cast<const uint4*>(
      group.x + (top * a.list.cols + first) * kSizeOf<D>);
  const int64_t pitch = a.list.cols / kPerQuad<D>;
  bool inside[kQuads];
  QUANTD_UNROLL
  for (int s = 0; s < kQuads; ++s) {
    inside[s] = first + s * kWarp * kPerQuad<D> < a.list.cols;
  }
  uint4 column[kQuads] = {};
  uint32_t mine = 0;  // lane i has the maximum of the warp's row i
  uint32_t all = 0;
#pragma unroll 2
  for (int i = 0; i < kRowsOfWarp; ++i) {
    const int row = warp + i * kWarps;
    uint4 most = {};
    QUANTD_UNROLL
    for (int s = 0; s < kQuads; ++s) {
      uint4 q = {};
      if (inside[s] && row < rows) q = __ldg(x + row * pitch + s * kWarp);
      q = Magnitudes<D>(q);
      if constexpr (kColumns) column[s] = Larger<D>(column[s], q);
      most = Larger<D>(most, q);
    }
    const uint32_t of_row = __reduce_max_sync(
        0xFFFFFFFFu,
        M::Of(M::Larger(M::Larger(most.x, most.y), M::Larger(most.z, most.w))));
    if (lane == i) mine = of_row;
    all = max(all, of_row);
  }
  if (lane == 0) warps[warp] = all;
  __syncthreads();
  QUANTD_UNROLL
  for (const uint32_t of_warp : warps) all = max(all, of_warp);
  AwaitKernelBefore();
  if (all >= M::kInf) {
    uint32_t seen = 0;
    for (int64_t col = left; col < left + kCtaColumns<D> && col < a.list.cols;
         col += kTileSide) {
      seen |= FindInTile<D, kBlock>(a, {&group, g, top, col});
    }
    Report(seen, a.seen);
    return;
  }
  if (a.rows != nullptr && lane < kRowsOfWarp && warp + lane * kWarps < rows) {
    RaiseTo(M::Float(mine), &a.rows[group.row + top + warp + lane * kWarps]);
  }
  if constexpr (kColumns) {
    QUANTD_UNROLL
    for (int s = 0; s < kQuads; ++s) {
      columns[warp][s * kWarp + lane] = column[s];
    }
    __syncthreads();
    uint32_t* const to = a.columns + g * a.list.cols + left;
    for (auto i = static_cast<int>(threadIdx.x); i < kCtaColumns<D>;
         i += kThreads) {
      uint32_t most = 0;
      QUANTD_UNROLL
      for (const auto& of_warp : columns) {
        const auto* const bytes = reinterpret_cast<const std::byte*>(of_warp);
        most = max(most, LoadBits<D>(bytes + i * kSizeOf<D>));
      }
      if (left + i < a.list.cols) RaiseTo(M::Float(most), to + i);
    }
  }
  if (threadIdx.x == 0) RaiseTo(M::Float(all), &a.found[g].plain);
}

}  // namespace

cudaError_t LaunchAmaxOfLines(const SpanAmaxArgs& a, const Queue& queue) {
  return ForDType(a.dtype, [&](auto d) {
    constexpr DType D = d();
    const int64_t across = (a.list.cols + kCtaColumns<D> - 1) / kCtaColumns<D>;
    const auto kernel =
        a.columns != nullptr ? &AmaxOfLines<D, true> : &AmaxOfLines<D, false>;
    return LaunchEarly(kernel,
                       static_cast<unsigned>(a.list.chunk_count * across),
                       {kThreads}, queue, a);
  });
}

}  // namespace quantd::cuda
