#include "kernels/cuda/encode_fp8.cuh"
#include "kernels/cuda/fp8.h"

namespace quantd::cuda {
namespace {

// Rows alone under a tensor's scale: neither tiles nor blocks matter, and the
// rows of a chunk are one run of elements, of which a CTA takes a tile's worth.
inline constexpr int kRun = 8;  // elements a load
inline constexpr int kRuns = kTileSide * kTileSide / (kThreads * kRun);

template <DType E>
__global__ void __launch_bounds__(kThreads)
    EncodeRuns(const __grid_constant__ EncodeArgs a) {
  const uint32_t across = static_cast<uint32_t>(TilesAcross(a.list));
  const uint32_t chunk = blockIdx.x / across;
  const GroupTile tile = FindChunk(a, chunk);
  const int64_t rows = tile.group->rows - tile.row;
  const int64_t start = tile.row * a.list.cols;
  const int64_t first =
      int64_t{blockIdx.x - chunk * across} * (kTileSide * kTileSide);
  const int64_t left =
      (rows < kTileSide ? rows : kTileSide) * a.list.cols - first;
  const std::byte* const x = tile.group->x + 2 * (start + first);
  std::byte* const to = tile.group->rowwise.data + start + first;
  uint4 raw[kRuns];
  QUANTD_UNROLL
  for (int i = 0; i < kRuns; ++i) {
    const int at = (i * kThreads + static_cast<int>(threadIdx.x)) * kRun;
    raw[i] = make_uint4(0, 0, 0, 0);
    if (at < left) raw[i] = __ldg(reinterpret_cast<const uint4*>(x + 2 * at));
  }
  const float m = *tile.group->rowwise.tensor_scale;
  uint32_t seen = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kRuns; ++i) {
    const int at = (i * kThreads + static_cast<int>(threadIdx.x)) * kRun;
    const uint4 r = raw[i];
    const uint32_t max = MaxOfWords(MaxOfWords(r.x, r.y), MaxOfWords(r.z, r.w));
    if (HoldsSpecial(max)) seen |= SeenInRun(x + 2 * at, kRun);
    const uint32_t low = CodesOf<E>(LowBf16(r.x) * m, HighBf16(r.x) * m,
                                    LowBf16(r.y) * m, HighBf16(r.y) * m);
    const uint32_t high = CodesOf<E>(LowBf16(r.z) * m, HighBf16(r.z) * m,
                                     LowBf16(r.w) * m, HighBf16(r.w) * m);
    if (at < left) StoreGlobal(make_uint2(low, high), to + at);
  }
  Report(seen, a.seen);
}

template <DType E>
cudaError_t Launch(const EncodeArgs& a, const Queue& queue) {
  if (a.first.columnwise.data != nullptr || a.dbias) {
    return LaunchTiles<Scaling::kTensor, E>(a, queue);
  }
  EncodeRuns<E>
      <<<static_cast<unsigned>(TileCount(a.list)), kThreads, 0, queue.stream>>>(
          a);
  return cudaGetLastError();
}

}  // namespace

template <>
cudaError_t LaunchEncodeFp8Of<Scaling::kTensor>(const EncodeArgs& a,
                                                const Queue& queue) {
  return a.params.element == DType::kE4M3 ? Launch<DType::kE4M3>(a, queue)
                                          : Launch<DType::kE5M2>(a, queue);
}

}  // namespace quantd::cuda
