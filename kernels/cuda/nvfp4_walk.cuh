// Rowwise NVFP4 kernels that keep to registers: a thread is a block of sixteen,
// a warp one row of 512 columns. What a block becomes is a coder's to say; the
// walk brings it blocks and takes units away.
#ifndef QUANTD_KERNELS_CUDA_NVFP4_WALK_CUH_
#define QUANTD_KERNELS_CUDA_NVFP4_WALK_CUH_

#include "kernels/cuda/encode_nvfp4.cuh"

namespace quantd::cuda {

// A CTA takes 2^log_width blocks next to each other, in one or more steps of
// 1024 blocks each, one below the other in the same chunk.
struct RowWalk {
  static constexpr int kStep = 1024;
  static constexpr int kUnits = kStep / kThreads;  // of a thread, in a step

  int log_width;
  uint32_t across;  // items along a row
  uint32_t steps;   // of an item
  uint32_t down;    // items in a chunk
  uint32_t count;
  // From one unit of a thread to the next: lines, and bytes of the input and
  // of the codes. All groups are alike in that, and in where scales are.
  int stride;
  int64_t stride_in;
  int64_t stride_out;
  uint32_t scale_line;   // bytes from line to line
  uint32_t scale_lines;  // and from a line to the 32nd after it

  RowWalk(const EncodeArgs& a, int ctas) {
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
    const CopyTask& copy = a.first.rowwise;
    stride = kThreads >> log_width;
    stride_in = stride * a.list.cols * kSizeOf<DType::kBF16>;
    stride_out = stride * copy.data_line;
    scale_line = copy.swizzled ? 16 : static_cast<uint32_t>(copy.scale_line);
    scale_lines = copy.swizzled ? 4 : 32 * scale_line;
  }
};

// All threads of the grid must call this. A coder has
//   group            the GroupState in shared memory
//   Settle()         makes its tables of group->task; ends with a barrier
//   Begin(row, b)    the thread's next blocks are those with number b of this
//                    row of the group and of every stride-th one below it
//   Encode(x, unit)  of the next of them, rotated already; false where
//                    EncodeRare is to make the unit instead
//   EncodeRare(x, row, b)  of a block as it was read
template <bool kRht, typename Coder>
__device__ __forceinline__ void WalkRows(const EncodeArgs& a,
                                         const RowWalk& walk, Coder* coder) {
  int64_t current = -1;
  const int64_t blocks = a.list.cols / kBlock;
  const int64_t pitch = a.list.cols * kSizeOf<DType::kBF16>;
  const int in_row = threadIdx.x & ((1 << walk.log_width) - 1);
  for (uint32_t i = blockIdx.x; i < walk.count; i += gridDim.x) {
    const uint32_t band = i / walk.across;
    const int64_t b =
        (int64_t{i - band * walk.across} << walk.log_width) + in_row;
    const Chunk chunk(a.list, band / walk.down);
    const bool entered = coder->group->Enter(a, chunk.group, &current);
    const GroupTask& task = coder->group->task;
    const CopyTask& copy = task.rowwise;
    const int64_t top = chunk.number * kTileSide;
    const int64_t left = task.rows - top;
    const int rows = static_cast<int>(left < kTileSide ? left : kTileSide);
    // Of this thread's first unit, counted in the chunk; and how many it has.
    int units = static_cast<int>(walk.steps) * RowWalk::kUnits;
    const int first = static_cast<int>(band % walk.down) * units * walk.stride +
                      static_cast<int>(threadIdx.x >> walk.log_width);
    const int most = (rows - first + walk.stride - 1) / walk.stride;
    units = units < most ? units : most;
    if (b >= blocks) units = 0;
    const std::byte* from = task.x + (top + first) * pitch + b * 32;
    std::byte* to = copy.data + (top + first) * copy.data_line + b * 8;
    const ScaleColumn scales(copy, top, b);
    Words next = {};
    if (units > 0) next = LoadWords(from);
    if (entered) coder->Settle();
    coder->Begin(top + first, b);
    uint32_t rare = 0;
    uint32_t line = static_cast<uint32_t>(first);
#pragma unroll 1
    for (int left_over = units; left_over > 0; --left_over) {
      Words x = next;
      from += walk.stride_in;
      if (left_over > 1) next = LoadWords(from);
      if constexpr (kRht) {
        float v[kBlock];
        Unpack(x, v);
        RotateForward<Scalar, true>(v, a.signs);
        Pack(v, &x);
      }
      Unit unit;
      rare = rare << 1 | (coder->Encode(x, &unit) ? 0u : 1u);
      *reinterpret_cast<uint2*>(to) = unit.codes;
      to += walk.stride_out;
      scales.first[line % 32 * walk.scale_line + line / 32 * walk.scale_lines] =
          static_cast<std::byte>(unit.scale);
      line += static_cast<uint32_t>(walk.stride);
    }
    // From the last one back.
    for (; rare != 0; rare >>= 1) {
      from -= walk.stride_in;
      to -= walk.stride_out;
      line -= static_cast<uint32_t>(walk.stride);
      if ((rare & 1u) == 0) continue;
      const Unit unit = coder->EncodeRare(LoadWords(from), top + line, b);
      *reinterpret_cast<uint2*>(to) = unit.codes;
      *scales.at(line) = static_cast<std::byte>(unit.scale);
    }
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_NVFP4_WALK_CUH_
