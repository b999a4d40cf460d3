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
  static constexpr int kResident = 4;  // CTAs of a multiprocessor at a time

  int log_width;
  uint32_t across;  // items along a row
  uint32_t steps;   // of an item
  uint32_t down;    // items in a chunk
  uint32_t count;
  // From one unit of a thread to the next: lines, and bytes of the input and
  // of the codes. All groups are alike in that.
  int stride;
  int64_t stride_in;
  int64_t stride_out;

  RowWalk(const EncodeArgs& a, const Queue& queue) {
    const int64_t blocks = a.list.cols / kBlock;
    log_width = blocks > 16 ? 5 : blocks > 8 ? 4 : 3;
    across =
        static_cast<uint32_t>((blocks + (1 << log_width) - 1) >> log_width);
    down = static_cast<uint32_t>((kTileSide << log_width) / kStep);
    count = static_cast<uint32_t>(a.list.chunk_count) * down * across;
    steps = 1;
    // Long items save set-up, as long as there are a few for every CTA.
    const int resident = queue.multiprocessors * kResident;
    while (down > 1 && count >= 4u * resident) {
      steps *= 2;
      down /= 2;
      count /= 2;
    }
    stride = kThreads >> log_width;
    stride_in = stride * a.list.cols * kSizeOf<DType::kBF16>;
    stride_out = stride * a.first.rowwise.data_line;
  }

  // Many more than there is room for: where arithmetic is the limit, the CTAs
  // of a multiprocessor do not advance evenly, and with equal shares the last
  // ones were left alone for a fifth of the time.
  unsigned Ctas(const Queue& queue) const { return GridFor(count, 64, queue); }
};

// A thread's own blocks on their way through shared memory, several at a time:
// it takes that many bytes under way to keep up with memory, and registers are
// short.
struct OwnBlocks {
  static constexpr uint32_t kStages = 4;
  static constexpr uint32_t kStageBytes = 2 * kThreads * sizeof(uint4);
  uint4 halves[kStages][2][kThreads];

  // `slot` is a stage's offset in bytes.
  static __device__ __forceinline__ uint32_t After(uint32_t slot) {
    return (slot + kStageBytes) % (kStages * kStageBytes);
  }
};
// Of this thread.
__device__ __forceinline__ uint32_t AddressIn(OwnBlocks* blocks) {
  return static_cast<uint32_t>(
      __cvta_generic_to_shared(&blocks->halves[0][0][threadIdx.x]));
}
// Begins to copy a block of 32 bytes, where there is one; Arrived<n> waits
// until at most the last n of these calls are under way.
__device__ __forceinline__ void BeginCopy(bool wanted, const std::byte* from,
                                          uint32_t to) {
  if (wanted) {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 16;\n"
        "cp.async.ca.shared.global [%0 + %2], [%1 + 16], 16;" ::"r"(to),
        "l"(from), "n"(kThreads * sizeof(uint4)));
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void Arrived() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
__device__ __forceinline__ Words TakeBlock(uint32_t at) {
  Words x;
  asm volatile(
      "ld.shared.v4.u32 {%0, %1, %2, %3}, [%8];\n"
      "ld.shared.v4.u32 {%4, %5, %6, %7}, [%8 + %9];"
      : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3]), "=r"(x.w[4]),
        "=r"(x.w[5]), "=r"(x.w[6]), "=r"(x.w[7])
      : "r"(at), "n"(kThreads * sizeof(uint4))
      : "memory");
  return x;
}

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
  __shared__ OwnBlocks staged;
  const uint32_t own = AddressIn(&staged);
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
    const uint32_t per_line = scales.pitch == 0 ? 16 : scales.pitch;
    const uint32_t per_32 = scales.pitch == 0 ? 4 : 32 * scales.pitch;
    constexpr int kAhead = static_cast<int>(OwnBlocks::kStages) - 1;
    uint32_t slot = 0;
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      BeginCopy(ahead < units, from, own + slot);
      from += walk.stride_in;
      slot = OwnBlocks::After(slot);
    }
    if (entered) coder->Settle();
    coder->Begin(top + first, b);
    uint32_t rare = 0;
    uint32_t line = static_cast<uint32_t>(first);
#pragma unroll 1
    for (int left_over = units; left_over > 0; --left_over) {
      // The slot of the block before, and after it this one's.
      BeginCopy(left_over > kAhead, from, own + slot);
      from += walk.stride_in;
      slot = OwnBlocks::After(slot);
      Arrived<kAhead>();
      Words x = TakeBlock(own + slot);
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
      scales.first[line % 32 * per_line + line / 32 * per_32] =
          static_cast<std::byte>(unit.scale);
      line += static_cast<uint32_t>(walk.stride);
    }
    // From the last one back.
    from -= kAhead * walk.stride_in;
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
