#include "kernels/arith/profile/line_factors.h"
#include "kernels/cuda/decode/stored.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {
namespace {

// --- kernel -----------------------------------------------------------------

template <DType D, int N>
__global__ void __launch_bounds__(kThreads)
    DecodeSpans(const __grid_constant__ DecodeArgs a) {
  const DequantizeParams& p = a.params;
  const int block = p.block != 0 ? p.block : N;
  const int64_t tiles = TileCount(a.list);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const GroupTile tile = FindTile(a.list, t);
    const CopyTask copy =
        p.columnwise ? tile.group->columnwise : tile.group->rowwise;
    for (int i = threadIdx.x; i < TileSpan<N>::kCount; i += kThreads) {
      const TileSpan<N> span(p.columnwise, i);
      const int64_t line = (p.columnwise ? tile.col : tile.row) + span.line;
      const int64_t first =
          (p.columnwise ? tile.row : tile.col) + span.position;
      if (line >= copy.lines || first >= copy.padded) continue;
      const LineFactors<Scalar> factors(p.scaling, p.numerics, p.output,
                                        p.range, AmaxOf(copy, line));
      float v[N] = {};
#pragma unroll 1
      for (int b = 0; b < N && first + b < copy.padded; b += block) {
        // A line with a single scale uses scale 0.
        const int64_t number = p.block != 0 ? (first + b) / block : 0;
        const int64_t index =
            p.scaling == Scaling::kTensor ? 0 : ScaleIndex(copy, line, number);
        const float factor = factors.Of(LoadScale(p.scale, copy, index));
#pragma unroll 1
        for (int j = b; j < b + block && first + j < copy.padded; j += kBlock) {
          uint32_t words[4] = {};
          LoadCodes(p.element, copy, line, first + j, words);
          if (p.numerics.high_first) {
            for (int w = 0; w < 2; ++w) {
              words[w] = SwapNibbles<Scalar>(words[w]);
            }
          }
          float(&block)[kBlock] = BlockOf(v, j / kBlock);
          DecodeBlock(p.element, words, block);
          QUANTD_UNROLL
          for (int k = 0; k < kBlock; ++k) block[k] = block[k] * factor;
        }
      }
      if (copy.signs != nullptr) {
#pragma unroll 1
        for (int j = 0; j < N / kBlock; ++j) RoundBlock<D>(BlockOf(v, j));
        for (int j = 0; j < N; j += copy.rotation) {
          RotateInverseOf<Scalar>(v + j, copy.rotation, copy.signs);
        }
      }
      StoreSpan<D>(*tile.group, a.list.cols, p.columnwise, line, first, v);
    }
  }
}

// --- launchers --------------------------------------------------------------

template <DType D>
cudaError_t LaunchDecodeTo(const DecodeArgs& a, const Queue& queue) {
  const int least = a.params.block > 0 ? a.params.block : kBlock;
  const int n = a.rotation > least ? a.rotation : least;
  return ForSpanSize(n, [&](auto size) {
    DecodeSpans<D, decltype(size)::value>
        <<<GridFor(TileCount(a.list), 8, queue), kThreads, 0, queue.stream>>>(
            a);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t LaunchDecodeSpans(const DecodeArgs& a, const Queue& queue) {
  return ForDType(a.params.output,
                  [&](auto d) { return LaunchDecodeTo<d()>(a, queue); });
}

}  // namespace quantd::cuda
