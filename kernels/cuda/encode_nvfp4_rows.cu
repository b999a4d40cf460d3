// NVFP4, rowwise copy alone: a thread is a block of sixteen, a warp one row of
// 512 columns, where rows are so long.
#include "kernels/cuda/encode_nvfp4.cuh"
#include "kernels/cuda/nvfp4.h"
#include "kernels/cuda/rotate.cuh"

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

  RowItems(const EncodeArgs &a, int ctas) {
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

// Codes and scale from a block and its largest magnitude, and whether
// EncodeRare is to make them instead.
__device__ __forceinline__ bool EncodeUnit(const Words &x, uint32_t max,
                                           const Lines &lines, Unit *unit) {
  const float wanted = __uint_as_float(max) * lines.s_inv6;
  unit->scale = E4M3Of(wanted);
  unit->codes = CodesOf(x, lines.of[unit->scale]);
  return IsRare(max, wanted);
}

// What a thread has loaded of a unit: its own block, or parts of its warp's.
template <bool kRht>
struct Loaded {
  uint32_t parts[2][4];
};
template <>
struct Loaded<false> {
  Words x;
};

// A warp's 32 blocks where they are in memory: block b is in row b >> log_width
// of those that the warp has.
struct WarpBlocks {
  const std::byte *first;
  int64_t pitch;
  int log_width;
  int rows, blocks;  // there are so many of them from the first one on

  __device__ __forceinline__ const std::byte *at(int b) const {
    return first + (b >> log_width) * pitch + (b & ((1 << log_width) - 1)) * 32;
  }
  // A lane's parts for the tensor cores, four neighbours of each block.
  __device__ __forceinline__ void LoadParts(uint32_t (&x)[2][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    QUANTD_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int b = 8 * k + lane / 4;
      uint2 part = make_uint2(0, 0);
      if ((b >> log_width) < rows && (b & ((1 << log_width) - 1)) < blocks) {
        part = *reinterpret_cast<const uint2 *>(at(b) + lane % 4 * 8);
      }
      x[k / 2][k % 2] = part.x;
      x[k / 2][k % 2 + 2] = part.y;
    }
  }
};

template <bool kRht>
__global__ void __launch_bounds__(kThreads, 4)
    EncodeNvfp4Rows(const __grid_constant__ EncodeArgs a,
                    const __grid_constant__ RowItems items) {
  alignas(GroupState) __shared__ std::byte state[sizeof(GroupState)];
  GroupState &group = reinterpret_cast<GroupState &>(state);
  __shared__ Exchange exchange[kRht ? kThreads / kWarp : 1];
  const Rotation rotation(a.signs, true);
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
    const GroupTask &task = group.task;
    const CopyTask &copy = task.rowwise;
    // Rows of this item, counted in the chunk.
    const int first =
        static_cast<int>(band % items.down * items.steps) * kUnits * stride;
    const int64_t left = task.rows - chunk.number * kTileSide;
    const int rows = static_cast<int>(left < kTileSide ? left : kTileSide);
    int line = first + static_cast<int>(threadIdx.x >> items.log_width);
    const int64_t row = chunk.number * kTileSide + line;
    const std::byte *from = task.x + row * pitch + b * 32;
    std::byte *to = copy.data + row * copy.data_line + b * 8;
    const ScaleColumn scales(copy, chunk.number * kTileSide, b);
    // The same for the warp's first thread: a warp starts a row.
    const int behind = static_cast<int>(threadIdx.x % kWarp);
    const std::byte *warp_from = from - (behind >> items.log_width) * pitch -
                                 (behind & ((1 << items.log_width) - 1)) * 32;
    int warp_rows = rows - line + (behind >> items.log_width);
    const int warp_blocks =
        static_cast<int>(min(blocks - b + in_row, int64_t{kWarp}));
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
#pragma unroll 1
      for (int u = 0; u < kUnits; u += kBatch) {
        Loaded<kRht> loaded[kBatch];
        QUANTD_UNROLL
        for (int k = 0; k < kBatch; ++k) {
          const int down = (u + k) * stride;
          if constexpr (kRht) {
            WarpBlocks{warp_from + down * pitch, pitch, items.log_width,
                       warp_rows - down, warp_blocks}
                .LoadParts(loaded[k].parts);
          } else {
            loaded[k].x = {};
            if (line + down < rows && b < blocks) {
              loaded[k].x = LoadWords(from + down * pitch);
            }
          }
        }
        QUANTD_UNROLL
        for (int k = 0; k < kBatch; ++k) {
          const int down = (u + k) * stride;
          Words x;
          uint32_t max;
          if constexpr (kRht) {
            const WarpBlocks source = {warp_from + down * pitch, pitch,
                                       items.log_width, 0, 0};
            const auto element = [source](int block, int i) {
              return LowOf(
                  reinterpret_cast<const uint16_t *>(source.at(block))[i]);
            };
            x = Rotate(loaded[k].parts, rotation, a.signs, element,
                       &exchange[threadIdx.x / kWarp], &max);
          } else {
            x = loaded[k].x;
            max = LargerHalf(LargestOf(x.w));
          }
          if (line + down >= rows || b >= blocks) continue;
          Unit unit;
          rare |= EncodeUnit(x, max, group.row, &unit) ? 1u << (u + k) : 0u;
          *reinterpret_cast<uint2 *>(to + down * copy.data_line) = unit.codes;
          *scales.at(line + down) = static_cast<std::byte>(unit.scale);
        }
      }
      for (int u = 0; rare != 0; ++u, rare >>= 1) {
        if ((rare & 1u) == 0) continue;
        const Unit unit =
            EncodeRare(a.params, LoadWords(from + u * stride * pitch),
                       kRht ? a.signs : nullptr, *copy.amax, nullptr, a.seen);
        *reinterpret_cast<uint2 *>(to + u * stride * copy.data_line) =
            unit.codes;
        *scales.at(line + u * stride) = static_cast<std::byte>(unit.scale);
      }
      line += kUnits * stride;
      warp_rows -= kUnits * stride;
      warp_from += kUnits * stride * pitch;
      from += kUnits * stride * pitch;
      to += kUnits * stride * copy.data_line;
    }
  }
}

template <bool kRht>
cudaError_t LaunchRows(const EncodeArgs &a, const Queue &queue) {
  constexpr int kPerMultiprocessor = 4;
  const RowItems items(a, queue.multiprocessors * kPerMultiprocessor);
  const unsigned ctas = GridFor(items.count, kPerMultiprocessor, queue);
  EncodeNvfp4Rows<kRht><<<ctas, kThreads, 0, queue.stream>>>(a, items);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchEncodeNvfp4Rows(const EncodeArgs &a, const Queue &queue) {
  return a.first.rowwise.signs != nullptr ? LaunchRows<true>(a, queue)
                                          : LaunchRows<false>(a, queue);
}

}  // namespace quantd::cuda
