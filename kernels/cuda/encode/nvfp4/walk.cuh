// The common part of rowwise NVFP4 kernels for bf16 and fp16. A thread takes
// one block of sixteen at a time, a warp 512 columns of a row. A coder encodes
// the blocks. The walk loads them and stores the results.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_WALK_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_WALK_CUH_

#include "kernels/cuda/encode/nvfp4/encode.cuh"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

namespace quantd::cuda {

// The group of a chunk of 128 rows, and the number of the chunk in the group.
struct GroupChunk {
  int64_t group;
  int64_t number;

  __device__ __forceinline__ GroupChunk(const GroupList& list, int64_t chunk)
      : group(0), number(chunk) {
    if (list.count == 1) return;
    group = FindEntry(list.chunks, list.count, chunk);
    number -= list.chunks[group];
  }
};

// The current group of a CTA.
struct RowGroup {
  const GroupTask* task;
  int64_t number;
  int64_t row;        // the group's first row in the payload
  const float* amax;  // amax of the rowwise copy
  int64_t top;        // first row of the CTA's chunk in the group
  int rows;           // rows of the chunk
};

// The items that CTAs take, one each. An item is 2^log_width blocks wide. It
// has one or more steps of 1024 blocks, one below the other in the same chunk.
//
// There is a CTA for each item, not a loop over items in as many CTAs as fit at
// a time. If arithmetic is the limit, the CTAs of a multiprocessor do not
// advance evenly. With equal shares the last ones ran alone for a fifth of the
// time.
struct RowWalk {
  static constexpr int kStep = 1024;
  static constexpr int kUnits = kStep / kThreads;  // units of a thread in a
                                                   // step
  static constexpr int kResident = 4;  // CTAs of a multiprocessor at a time
  static constexpr int kElementBytes = 2;

  int log_width;
  int log_down;   // log2 of the number of items in a chunk
  int units;      // units of a thread in an item, at most 16
  int64_t bands;  // items from top to bottom
  // Distance from one unit of a thread to the next: in lines, and in bytes of
  // the input and of the codes. Equal in all groups.
  int stride;
  int64_t stride_in;
  int64_t stride_out;

  RowWalk(const EncodeArgs& a, const Queue& queue) {
    const int64_t blocks = a.list.cols / kBlock;
    log_width = blocks > 16 ? 5 : blocks > 8 ? 4 : 3;
    log_down = log_width - 3;
    static_assert(kTileSide << 3 == kStep);
    units = kUnits;
    bands = a.list.chunk_count << log_down;
    // Makes items longer, to save set-up, as long as there are four or more for
    // every resident CTA.
    const int64_t enough = int64_t{4} * kResident * queue.multiprocessors;
    while (log_down > 0 && bands * Across(a) >= enough) {
      units *= 2;
      --log_down;
      bands /= 2;
    }
    stride = kThreads >> log_width;
    stride_in = stride * a.list.cols * kElementBytes;
    stride_out = stride * a.first.rowwise.data_line;
  }

  // Consecutive CTAs take items side by side.
  static constexpr int64_t kBandsPerLayer = 32768;
  dim3 Grid(const EncodeArgs& a) const {
    const int64_t layers = (bands + kBandsPerLayer - 1) / kBandsPerLayer;
    return dim3(
        static_cast<unsigned>(Across(a)),
        static_cast<unsigned>(bands < kBandsPerLayer ? bands : kBandsPerLayer),
        static_cast<unsigned>(layers));
  }

 private:
  int64_t Across(const EncodeArgs& a) const {
    return ((a.list.cols / kBlock - 1) >> log_width) + 1;
  }
};

// Blocks that threads load ahead, in shared memory. Several must be in flight
// to use the memory's bandwidth, and registers are scarce.
struct OwnBlocks {
  static constexpr uint32_t kStages = 4;
  static constexpr uint32_t kStageBytes = 2 * kThreads * sizeof(uint4);
  uint4 halves[kStages][2][kThreads];

  // The slot after `slot`. A slot is a stage's offset in bytes.
  static __device__ __forceinline__ uint32_t After(uint32_t slot) {
    return (slot + kStageBytes) % (kStages * kStageBytes);
  }
};
// The address of this thread's blocks.
__device__ __forceinline__ uint32_t AddressIn(OwnBlocks* blocks) {
  return SharedAddress(&blocks->halves[0][0][threadIdx.x]);
}
// Begins to copy a block of 32 bytes, if it exists. Arrived<n> waits until at
// most the last n of these copies are in flight.
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

// The element type of the blocks that a coder gets. Rotated blocks are bf16.
template <DType D, bool kRht>
inline constexpr DType kWalked = kRht ? DType::kBF16 : D;

// Encodes rows with a coder. All threads of RowWalk::Grid must call this; D is
// the input's type. A coder has
//   kGathers         whether swizzled scales may pass through shared memory
//   group            a RowGroup, which the walk sets
//   Settle()         computes what depends on the group's amax, and ends with
//                    a barrier
//   Begin(row, b)    announces the thread's next blocks: block b of this row
//                    of the group and of every stride-th row below
//   Encode(x, unit)  makes the unit of the next block, x, which is rotated and
//                    of type kWalked; returns false if EncodeRare must make it
//   EncodeRare(x, row, b)
//                    makes the unit of a block, x, which is not rotated
template <DType D, bool kRht, typename Coder>
__device__ __forceinline__ void WalkRows(const EncodeArgs& a,
                                         const RowWalk& walk, Coder* coder) {
  LetNextKernelStart();
  __shared__ OwnBlocks staged;
  __shared__ uint4 gathered[Coder::kGathers ? 8 * kSwizzledTile / 16 : 1];
  const uint32_t own = AddressIn(&staged);
  const int64_t band = blockIdx.z * RowWalk::kBandsPerLayer + blockIdx.y;
  if (band >= walk.bands) return;
  const GroupChunk chunk(a.list, band >> walk.log_down);
  // (A single group is read from the arguments.)
  const bool alone = a.list.count == 1;
  const GroupTask* const groups = a.list.groups + chunk.group;
  const std::byte* const input = alone ? a.first.x : groups->x;
  const int64_t top = chunk.number * kTileSide;
  const int64_t left = (alone ? a.first.rows : groups->rows) - top;
  const int rows = static_cast<int>(left < kTileSide ? left : kTileSide);
  const int64_t b = (int64_t{blockIdx.x} << walk.log_width) +
                    (threadIdx.x & ((1 << walk.log_width) - 1));
  // The row of this thread's first unit in the chunk, and the number of the
  // thread's units.
  const int part = static_cast<int>(band & ((1 << walk.log_down) - 1));
  const int first = part * walk.units * walk.stride +
                    static_cast<int>(threadIdx.x >> walk.log_width);
  int units = (rows - first + walk.stride - 1) / walk.stride;
  units = units < walk.units ? units : walk.units;
  if (b >= a.list.cols / kBlock) units = 0;
  // Begins loading, which goes on while the coder makes its tables.
  const std::byte* from =
      input + (top + first) * a.list.cols * RowWalk::kElementBytes + b * 32;
  constexpr int kAhead = static_cast<int>(OwnBlocks::kStages) - 1;
  uint32_t slot = 0;
  for (int ahead = 0; ahead < kAhead; ++ahead) {
    BeginCopy(ahead < units, from, own + slot);
    from += walk.stride_in;
    slot = OwnBlocks::After(slot);
  }
  const auto codes_of = [&](const CopyTask& copy) {
    return copy.data + (top + first) * copy.data_line + b * 8;
  };
  const auto scales_of = [&](const CopyTask& copy) {
    return ScaleColumn(copy, static_cast<uint32_t>(top),
                       static_cast<uint32_t>(b));
  };
  std::byte* to = alone ? codes_of(a.first.rowwise) : codes_of(groups->rowwise);
  ScaleColumn scales =
      alone ? scales_of(a.first.rowwise) : scales_of(groups->rowwise);
  // Swizzled scales of a whole chunk are adjacent, so they are gathered in
  // shared memory: storing scattered bytes would keep memory busier than all
  // other work.
  std::byte* const swizzled = scales.first;
  const bool gathers = Coder::kGathers && scales.pitch == 0 &&
                       walk.log_down == 0 && walk.log_width == 5 &&
                       rows == kTileSide &&
                       (int64_t{blockIdx.x} + 1) << 5 <= a.list.cols / kBlock;
  if (gathers) {
    scales.first = reinterpret_cast<std::byte*>(gathered) +
                   (b % 32 / 4 * kSwizzledTile + b % 4);
  }
  coder->group = {alone ? &a.first : groups,
                  chunk.group,
                  alone ? a.first.row : groups->row,
                  alone ? a.first.rowwise.amax : groups->rowwise.amax,
                  top,
                  rows};
  AwaitKernelBefore();
  coder->Settle();
  const uint32_t per_line = scales.pitch == 0 ? kSwizzledLine : scales.pitch;
  const uint32_t per_32 =
      scales.pitch == 0 ? kSwizzledQuarter : 32 * scales.pitch;
  coder->Begin(top + first, b);
  uint32_t rare = 0;
  uint32_t line = static_cast<uint32_t>(first);
#pragma unroll 1
  for (int left_over = units; left_over > 0; --left_over) {
    // Reuses the slot of the last block. This block is in the slot after it.
    BeginCopy(left_over > kAhead, from, own + slot);
    from += walk.stride_in;
    slot = OwnBlocks::After(slot);
    Arrived<kAhead>();
    Words x = TakeBlock(own + slot);
    if constexpr (kRht) {
      float v[kBlock];
      Unpack<D>(x, v);
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
  // Goes back from the last block.
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
  if (!gathers) return;
  __syncthreads();
  // The first scale of all is that of the first thread.
  std::byte* const first_scale =
      swizzled - (b % 32 / 4 * kSwizzledTile + b % 4);
  reinterpret_cast<uint4*>(first_scale)[threadIdx.x] = gathered[threadIdx.x];
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_WALK_CUH_
