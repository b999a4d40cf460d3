// NVFP4, rowwise copy alone: a thread is a block of sixteen, a warp one row of
// 512 columns. Nothing goes through shared memory.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"

namespace quantd::cuda {
namespace {

// A CTA takes 2^log_width blocks next to each other, in one or more steps of
// 1024 blocks each, one below the other in the same chunk.
constexpr int kStep = 1024;
constexpr int kUnits = kStep / kThreads;  // of a thread, in a step

struct RowItems {
  int log_width;
  uint32_t across;  // items along a row
  uint32_t steps;   // of an item
  uint32_t down;    // items in a chunk
  uint32_t count;

  RowItems(const EncodeArgs& a, int ctas) {
    const int64_t blocks = a.list.cols / kBlock;
    log_width = blocks > 16 ? 5 : blocks > 8 ? 4 : 3;
    across =
        static_cast<uint32_t>((blocks + (1 << log_width) - 1) >> log_width);
    down = static_cast<uint32_t>((kTileSide << log_width) / kStep);
    count = static_cast<uint32_t>(a.list.chunk_count) * down * across;
    steps = 1;
    // Long items save set-up, as long as there are enough for every CTA to end
    // at about the same time.
    while (down > 1 && count / 2 >= 8u * ctas) {
      steps *= 2;
      down /= 2;
      count /= 2;
    }
  }
};

// Codes, scale, and whether EncodeRare is to make them instead.
template <bool kRht>
__device__ __forceinline__ bool EncodeUnit(const EncodeArgs& a, Words x,
                                           const GroupState& group,
                                           Unit* unit) {
  if constexpr (kRht) {
    float v[kBlock];
    Unpack(x, v);
    RotateForward<Scalar, true>(v, a.signs);
    Pack(v, &x);
  }
  const uint32_t max = LargerHalf(LargestOf(x.w));
  const float wanted = __uint_as_float(max) * group.row.s_inv6;
  unit->scale = E4M3Of(wanted);
  unit->codes = CodesOf(x, group.row.of[unit->scale]);
  return IsRare(max, wanted);
}

template <bool kRht>
__global__ void __launch_bounds__(kThreads, 4)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a,
                    const __grid_constant__ RowItems items) {
  __shared__ GroupState group;
  int64_t current = -1;
  const int64_t blocks = a.list.cols / kBlock;
  const int64_t pitch = a.list.cols * kSizeOf<DType::kBF16>;
  const int in_row = threadIdx.x & ((1 << items.log_width) - 1);
  // Units whose loads are under way at a time: registers are short.
  constexpr int kBatch = kRht ? kUnits / 2 : kUnits;
  // Rows from one unit of a thread to the next.
  const int stride = kThreads >> items.log_width;
  for (uint32_t i = blockIdx.x; i < items.count; i += gridDim.x) {
    const uint32_t band = i / items.across;
    const int64_t b =
        (int64_t{i - band * items.across} << items.log_width) + in_row;
    const Chunk chunk(a.list, band / items.down);
    const bool entered = group.Enter(a, chunk.group, &current);
    const GroupTask& task = group.task;
    const CopyTask& copy = task.rowwise;
    // Rows of this item, counted in the chunk.
    const int first =
        static_cast<int>(band % items.down * items.steps) * kUnits * stride;
    const int64_t left = task.rows - chunk.number * kTileSide;
    const int rows = static_cast<int>(left < kTileSide ? left : kTileSide);
    int line = first + static_cast<int>(threadIdx.x >> items.log_width);
    const int64_t row = chunk.number * kTileSide + line;
    const std::byte* from = task.x + row * pitch + b * 32;
    std::byte* to = copy.data + row * copy.data_line + b * 8;
    const ScaleColumn scales(copy, chunk.number * kTileSide, b);
    if (entered) {
      // On their way while the tables are made.
      for (int u = 0; u < kUnits; ++u) {
        if (line + u * stride < rows && b < blocks) {
          Prefetch(from + u * stride * pitch);
        }
      }
      group.Settle(a);
    }
    for (uint32_t step = 0; step < items.steps; ++step) {
      uint32_t rare = 0;
      QUANTD_UNROLL
      for (int u = 0; u < kUnits; u += kBatch) {
        Words x[kBatch];
        QUANTD_UNROLL
        for (int k = 0; k < kBatch; ++k) {
          x[k] = {};
          if (line + (u + k) * stride < rows && b < blocks) {
            x[k] = LoadWords(from + (u + k) * stride * pitch);
          }
        }
        QUANTD_UNROLL
        for (int k = 0; k < kBatch; ++k) {
          const int down = (u + k) * stride;
          if (line + down >= rows || b >= blocks) break;
          Unit unit;
          rare |= EncodeUnit<kRht>(a, x[k], group, &unit) ? 1u << (u + k) : 0u;
          *reinterpret_cast<uint2*>(to + down * copy.data_line) = unit.codes;
          *scales.at(line + down) = static_cast<std::byte>(unit.scale);
        }
      }
      for (int u = 0; rare != 0; ++u, rare >>= 1) {
        if ((rare & 1u) == 0) continue;
        const Unit unit =
            EncodeRare(a.params, LoadWords(from + u * stride * pitch),
                       kRht ? a.signs : nullptr, *copy.amax, nullptr, a.seen);
        *reinterpret_cast<uint2*>(to + u * stride * copy.data_line) =
            unit.codes;
        *scales.at(line + u * stride) = static_cast<std::byte>(unit.scale);
      }
      line += kUnits * stride;
      from += kUnits * stride * pitch;
      to += kUnits * stride * copy.data_line;
    }
  }
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs& a, const Queue& queue) {
  constexpr int kPerMultiprocessor = 4;
  const RowItems items(a, queue.multiprocessors * kPerMultiprocessor);
  const unsigned ctas = GridFor(items.count, kPerMultiprocessor, queue);
  EncodeNvfp4Rows<kRht><<<ctas, kThreads, 0, queue.stream>>>(a, items);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs& a, const Queue& queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, queue)
                                          : LaunchRows<false>(a, queue);
}

}  // namespace quantd::cuda
