// NVFP4, rowwise copy alone: a thread is a block of sixteen, a warp one row of
// 512 columns. Nothing goes through shared memory.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"

namespace quantd::cuda {
namespace {

// A CTA's piece of work is 1024 blocks: 2^log_width next to each other in
// 1024 / 2^log_width rows.
constexpr int kBlocks = 1024;

struct RowItems {
  int log_width;
  uint32_t across;     // items along a row
  uint32_t per_chunk;  // items in the 128 rows of a chunk, one below another
  uint32_t count;

  __host__ __device__ explicit RowItems(const GroupList& list) {
    const int64_t blocks = list.cols / kBlock;
    log_width = blocks > 16 ? 5 : blocks > 8 ? 4 : 3;
    across =
        static_cast<uint32_t>((blocks + (1 << log_width) - 1) >> log_width);
    per_chunk = static_cast<uint32_t>(kTileSide >> (10 - log_width));
    count = static_cast<uint32_t>(list.chunk_count) * per_chunk * across;
  }
  __device__ int rows() const { return kBlocks >> log_width; }
};

template <bool kRht>
__device__ __forceinline__ Unit EncodeUnit(const EncodeArgs& a, const Words& x,
                                           const GroupState& group,
                                           uint32_t* seen) {
  Words y = x;
  if constexpr (kRht) {
    float v[kBlock];
    Unpack(x, v);
    RotateForward<Scalar, true>(v, a.signs);
    Pack(v, &y);
  }
  const uint32_t max = LargerHalf(LargestOf(y.w));
  const float wanted = __uint_as_float(max) * group.row.s_inv6;
  if (IsRare(max, wanted)) {
    return EncodeRare(a.params, x, kRht ? a.signs : nullptr,
                      *group.task.rowwise.amax, nullptr, seen);
  }
  const uint32_t scale = E4M3Of(wanted);
  return {CodesOf(y, group.row.of[scale]), scale};
}

// kDbias: items are whole chunks, one after the other in the same columns.
template <bool kRht, bool kDbias>
__global__ void __launch_bounds__(kThreads, 4)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a) {
  __shared__ GroupState group;
  int64_t current = -1;
  uint32_t seen = 0;
  const RowItems items(a.list);
  const int64_t blocks = a.list.cols / kBlock;
  const int64_t pitch = a.list.cols * kSizeOf<DType::kBF16>;
  const int width = 1 << items.log_width;
  const int in_row = threadIdx.x & (width - 1);
  const int in_column = threadIdx.x >> items.log_width;
  const int rows_at_once = kThreads >> items.log_width;
  const uint32_t steps = kDbias ? items.per_chunk : 1;
  for (uint32_t i = blockIdx.x; i < items.count / steps; i += gridDim.x) {
    const uint32_t band = i / items.across;
    const int64_t b = int64_t{i - band * items.across} * width + in_row;
    const uint32_t chunk = kDbias ? band : band / items.per_chunk;
    const int64_t g =
        a.list.count == 1 ? 0 : FindEntry(a.list.chunks, a.list.count, chunk);
    group.Enter(a, g, &current);
    const GroupTask& task = group.task;
    const int64_t in_group = chunk - (g == 0 ? 0 : a.list.chunks[g]);
    int64_t first = in_group * kTileSide;
    if (!kDbias) first += int64_t{band % items.per_chunk} * items.rows();
    float sums[2] = {0.0f, 0.0f};
    const CopyTask& copy = task.rowwise;
    const ScaleColumn scales(copy, in_group * kTileSide, b);
    for (uint32_t step = 0; step < steps; ++step, first += items.rows()) {
      const int64_t row = first + in_column;
      // Rows from `row` on, as far as this thread cares.
      int64_t rest = b < blocks ? task.rows - row : 0;
      rest = rest < kTileSide ? rest : kTileSide;
      const int count = static_cast<int>(rest);
      constexpr int kUnits = kBlocks / kThreads;
      Words x[kUnits];
      const std::byte* p = task.x + row * pitch + b * 32;
      QUANTD_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        x[u] = {};
        if (u * rows_at_once < count) x[u] = LoadWords(p);
        p += rows_at_once * pitch;
      }
      std::byte* to = copy.data + row * copy.data_line + b * 8;
      uint32_t line = static_cast<uint32_t>(row) % kTileSide;
      QUANTD_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        if (u * rows_at_once >= count) break;
        const Unit unit = EncodeUnit<kRht>(a, x[u], group, &seen);
        *reinterpret_cast<uint2*>(to) = unit.codes;
        *scales.at(line) = static_cast<std::byte>(unit.scale);
        to += rows_at_once * copy.data_line;
        line += rows_at_once;
      }
      if constexpr (kDbias) {
        const int64_t rest = task.rows - first;
        const int count =
            static_cast<int>(rest < items.rows() ? rest : items.rows());
        const int64_t column =
            (b - in_row) * kBlock + 2 * static_cast<int>(threadIdx.x);
        const bool mine =
            static_cast<int>(threadIdx.x) < width * 8 && column < a.list.cols;
        if (mine) {
          AddRows(task.x + first * pitch + column * 2, pitch, count, sums);
          if (step + 1 == steps) {
            *reinterpret_cast<float2*>(task.partial + in_group * a.list.cols +
                                       column) = make_float2(sums[0], sums[1]);
          }
        }
      }
    }
  }
  Report(seen, a.seen);
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs& a, const Queue& queue) {
  const RowItems items(a.list);
  if (a.dbias) {
    EncodeNvfp4Rows<kRht, true>
        <<<GridFor(items.count / items.per_chunk, 4, queue), kThreads, 0,
           queue.stream>>>(a);
  } else {
    EncodeNvfp4Rows<kRht, false>
        <<<GridFor(items.count, 4, queue), kThreads, 0, queue.stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& a, const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, queue)
                                          : LaunchRows<false>(a, queue);
}

}  // namespace quantd::cuda
