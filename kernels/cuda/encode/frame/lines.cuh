// Stores codes and scales of a warp's sixteen lines: in whole sectors if the
// copy's lines are aligned to sectors, else one by one.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_LINES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_LINES_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/codes/codes.cuh"
#include "kernels/cuda/encode/nvfp4/tile_lines.cuh"

namespace quantd::cuda {

// Gathers FP8 codes of a warp's lines into sectors, in the shared memory of
// LineCodes: 32 bytes of either half of sixteen lines at a time. Pieces of 16
// bytes are swizzled to avoid bank conflicts.
class LineBytes {
 public:
  using Storage = LineCodes::Storage;
  static_assert(sizeof(Storage) == kBlock * 64);

  __device__ __forceinline__ explicit LineBytes(Storage* storage)
      : base_(SharedAddress(storage)) {}

  // Sets the sixteen codes of group `i` (0 or 1) in half `lane / 16` of line
  // `lane % 16`.
  __device__ __forceinline__ void Set(uint32_t i, const Sixteen& codes) const {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t at = Piece(lane % kBlock, lane / kBlock * 2 + i);
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(codes.words[0]), "r"(codes.words[1]), "r"(codes.words[2]),
                 "r"(codes.words[3])
                 : "memory");
  }

  // Stores the codes after both groups have been set. All lanes must call this.
  // Lines begin at `position`. `pair`, 0 or 1, is the number of this pair of
  // groups in each half.
  __device__ __forceinline__ void Store(const EncodeParams& p,
                                        const CopyTask& copy, bool whole,
                                        int64_t line, int64_t position,
                                        int pair) const {
    __syncwarp();
    const uint32_t lane = threadIdx.x % kWarp;
    const int64_t at = position + lane % 4 / 2 * 64 + pair * 32 + lane % 2 * 16;
    QUANTD_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t of = i * 8 + lane / 4;
      const uint4 w = LoadShared4(Piece(of, lane % 4));
      if (whole) {
        StoreGlobal(w, copy.data + (line + of) * copy.data_line + at);
      } else if (line + of < copy.lines && at < copy.padded) {
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
        cuda::StoreCodes(p, copy, line + of, at, words);
      }
    }
    __syncwarp();
  }

 private:
  __device__ __forceinline__ uint32_t Piece(uint32_t line,
                                            uint32_t piece) const {
    return base_ + line * 64 + (piece ^ line / 2 % 4) * 16;
  }

  uint32_t base_;
};

// Returns a word of four scales. `bytes` holds scales of line lane % 16. For
// blocks of 16 there are four, from block 4 * (lane / 16) on. For blocks of 32
// there are two, from block 2 * (lane / 16) on, and each of the first sixteen
// lanes gets the four scales of its line.
template <int kLength>
__device__ __forceinline__ uint32_t WordOfScales(uint32_t bytes) {
  if constexpr (kLength == 16) return bytes;
  const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, bytes, kBlock);
  return (bytes & 0xFFFFu) | other << 16;
}

// Stores scales of blocks of 32. Each of the first sixteen lanes has the four
// scales of line `line` + lane.
__device__ __forceinline__ void StoreScalesOf32(const LineTask& task,
                                                const CopyTask& copy,
                                                uint32_t line, uint32_t block,
                                                int lines, uint32_t word) {
  const uint32_t lane = threadIdx.x % kWarp;
  if (lane >= kBlock || static_cast<int>(lane) >= lines ||
      block >= copy.blocks) {
    return;
  }
  std::byte* const to =
      task.is(LineTask::kSwizzled)
          ? copy.scale + SwizzledPiece(task.across, line + lane, block)
          : copy.scale + (line + lane) * copy.scale_line + block;
  *reinterpret_cast<uint32_t*>(to) = word;
}

// Zeroes the scales after the first `left` ones of a word, which are padding.
__device__ __forceinline__ uint32_t KeepScales(uint32_t word, int64_t left) {
  if (left >= 4) return word;
  return left <= 0 ? 0 : word & ((1u << (8 * left)) - 1);
}

// Stores the results of WordOfScales for a tile's lines. All lanes must call
// this.
template <int kLength>
__device__ __forceinline__ void StoreByteScales(const CopyTask& copy,
                                                const LineTask& task,
                                                int64_t first_line,
                                                int64_t position, int lines,
                                                uint32_t word) {
  const uint32_t lane = threadIdx.x % kWarp;
  const int64_t half = kLength == 16 ? lane / kBlock * 4 : 0;
  const int64_t block = position / kLength + half;
  word = KeepScales(word, copy.blocks - block);
  const auto line = static_cast<uint32_t>(first_line);
  if constexpr (kLength == 16) {
    const auto first = static_cast<uint32_t>(position / kBlock);
    StoreScalesOfSquares(
        task, {line, first, lines, task.blocks() - static_cast<int>(first)},
        word);
  } else {
    StoreScalesOf32(task, copy, line, static_cast<uint32_t>(block), lines,
                    word);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_LINES_CUH_
