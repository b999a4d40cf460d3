// Parts of NVFP4 kernels that work by tiles. Each team of eight warps takes a
// tile of 128 x 128 from a stream, and each warp takes sixteen lines of the
// tile.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_UNITS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_UNITS_CUH_

#include "kernels/cuda/encode/nvfp4/encode.cuh"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/tile_lines.cuh"
#include "kernels/cuda/tile/column_sums.cuh"
#include "kernels/cuda/tile/rotate.cuh"

namespace quantd::cuda {

// The stream of an encoder. Two teams keep memory busy, and their threads have
// more registers than those of three teams.
template <SharedMemory kSize, int kTeams = 2>
using EncodeStream = BySize<kSize, TileStream<kTeams, 5, kStack>,
                            TileStream<2, 3, kStack>, TileStream<1, 2, kStack>>;

// Shared memory of a CTA: see RunTileStream.
template <typename TileStream, typename TeamState>
struct TileShared {
  using Stream = TileStream;
  typename Stream::Tiles tiles;
  TeamState teams[Stream::kTeams];
  typename Stream::Control control;

  __device__ __forceinline__ void Begin() {}
};

// The codes of the block of bf16 at shared address `block`, if not all scales
// have fits. It is not inlined, and it reads the block again, because registers
// are scarce at its call.
static __device__ __noinline__ uint2 CodesWithoutFit(uint32_t block,
                                                     const ValueTable& values,
                                                     uint32_t scale) {
  return NearestCodes<DType::kBF16>(BlockAt(block), values.of[scale]);
}

// Computes the codes of blocks of type D from their scales, with a Table in
// shared memory that is made for the amax.
template <DType D>
class BlockCoding;

// Computes the codes of two elements at a time in fp16.
template <>
class BlockCoding<DType::kBF16> {
 public:
  using Table = FitTable;

  __device__ __forceinline__ explicit BlockCoding(const Table& table)
      : table_(table),
        of_(Kept(SharedAddress(table.of))),
        whole_(table.whole()) {}
  // Whether Codes works for blocks that are not rare.
  __device__ __forceinline__ bool any() const {
    return whole_ || table_.values.exact;
  }
  // Whether all scales have fits, so that Codes<true> works.
  __device__ __forceinline__ bool fits() const {
    return whole_ || kConvertsE2M1;
  }
  // The codes of x, the block at shared address `block`. `max` is the largest
  // magnitude under the scale.
  template <bool kFits>
  __device__ __forceinline__ uint2 Codes(const Words& x, uint32_t block,
                                         uint32_t scale, uint32_t max) const {
    if constexpr (kConvertsE2M1) {
      const uint32_t m = LoadShared(of_ + scale * sizeof(float));
      return NearestCodes<DType::kBF16>(x, __uint_as_float(m));
    }
    if constexpr (!kFits) return CodesWithoutFit(block, table_.values, scale);
    return CodesUnder(
        x, FitWords(LoadShared2(of_ + scale * sizeof(CodeFit)), max));
  }

 private:
  const Table& table_;
  const uint32_t of_;
  const bool whole_;
};

// Computes codes in fp32, because fp16 elements have too many bits for a fit.
template <>
class BlockCoding<DType::kF16> {
 public:
  using Table = ValueTable;

  __device__ __forceinline__ explicit BlockCoding(const Table& table)
      : of_(Kept(SharedAddress(table.of))), any_(table.exact) {}
  __device__ __forceinline__ bool any() const { return any_; }
  __device__ __forceinline__ bool fits() const { return true; }
  template <bool kFits>
  __device__ __forceinline__ uint2 Codes(const Words& x, uint32_t /*block*/,
                                         uint32_t scale,
                                         uint32_t /*max*/) const {
    const float m = __uint_as_float(LoadShared(of_ + scale * sizeof(float)));
    return NearestCodes<DType::kF16>(x, m);
  }

 private:
  const uint32_t of_;
  const bool any_;
};

// The current group of a team, and the tables that are made for its amaxes.
// With kCompares, also whether both copies have the same amax.
template <typename Table, bool kCompares = false>
class TeamGroup {
 public:
  struct Tables {
    LineTask rowwise;
    LineTask columnwise;
    Table row;
    Table col;
    bool same;  // with kCompares
    uint32_t group;
  };

  // All threads of the team must call this.
  __device__ __forceinline__ TeamGroup(const EncodeArgs& a, Tables* tables)
      : args_(a), tables_(tables), task_(&a.first) {
    if (alone()) {
      Fill(0);
    } else {
      if (Team::thread() == 0) tables->group = ~0u;
      Team::Sync();
    }
  }
  // Enters the group of the next tile. All threads of the team must call this.
  __device__ __forceinline__ void Enter(uint32_t group) {
    if (alone() || group == tables_->group) return;
    task_ = args_.list.groups + group;
    Team::Sync();  // waits until the tables are no longer in use
    Fill(group);
  }
  __device__ __forceinline__ const GroupTask& task() const { return *task_; }

 private:
  __device__ __forceinline__ bool alone() const {
    return args_.list.count == 1;
  }
  __device__ __forceinline__ void Fill(uint32_t group) {
    // (A single group is read from the arguments.)
    if (alone()) {
      FillFrom(args_.first, group);
    } else {
      FillFrom(*task_, group);
    }
  }
  // Several warps load the tables at the same time.
  __device__ __forceinline__ void FillFrom(const GroupTask& task,
                                           uint32_t group) {
    // All groups have the same copies. The first group is not in memory.
    const bool rows = args_.first.rowwise.data != nullptr;
    const bool columns = args_.first.columnwise.data != nullptr;
    if (rows) BringCodeTable(args_, group, 0, task.rowwise, &tables_->row);
    if (columns) {
      BringCodeTable(args_, group, 1, task.columnwise, &tables_->col);
    }
    const uint32_t thread = Team::thread();
    if (thread == 3 * kWarp) tables_->rowwise = LineTask(task.rowwise);
    if (thread == 4 * kWarp) tables_->columnwise = LineTask(task.columnwise);
    if (thread == 5 * kWarp) {
      tables_->group = group;
      if constexpr (kCompares) {
        tables_->same = rows && columns &&
                        __float_as_uint(*task.rowwise.amax) ==
                            __float_as_uint(*task.columnwise.amax);
      }
    }
    Team::Sync();
  }

  const EncodeArgs& args_;
  Tables* tables_;
  const GroupTask* task_;
};

// The sixteen lines (rows or columns) of a tile that a warp works on. The warp
// takes 32 blocks at a time: lane l has block `number + l / 16 * apart` of line
// `l % 16`.
template <bool kColumns>
class WarpLines {
 public:
  uint32_t number = 0;

  // Takes the lines of warp `warp` out of eight.
  __device__ __forceinline__ explicit WarpLines(const StagedTile& tile,
                                                uint32_t warp = Team::warp(),
                                                uint32_t apart = 4)
      : tile_(SharedAddress(tile.bytes)), first_(warp * kBlock), apart_(apart) {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t low = lane / 8 % 2 * 8;
    const uint32_t high = lane / 16 * 8;
    fragment_ =
        Kept(tile_ + (kColumns ? Offset(high + lane % 8, first() + low)
                               : Offset(first() + low + lane % 8, high)));
    own_row_ =
        Kept(tile_ + Offset(first() + lane % kBlock, lane / kBlock * 64));
  }
  // The first line.
  __device__ __forceinline__ uint32_t first() const { return first_; }

  // Loads the square that contains blocks number + apart * h, as LoadFragments
  // does, with lines as rows.
  __device__ __forceinline__ void Load(int h, uint32_t (&x)[4]) const {
    if constexpr (kColumns) {
      LoadFragmentsAt<true>(
          fragment_ + number * kRowOfSquares + apart_ * kRowOfSquares * h, x);
    } else {
      LoadFragmentsAt<false>((fragment_ ^ number * 32) + kTileBox * h, x);
    }
  }
  // The address of the first half of this lane's block of a row, for BlockAt.
  __device__ __forceinline__ uint32_t own_row() const {
    static_assert(!kColumns);
    return own_row_ ^ number * 32;
  }
  // Element i of block b of the 32.
  __device__ __forceinline__ uint32_t Bits(uint32_t b, uint32_t i) const {
    const uint32_t line = first() + b % kBlock;
    const uint32_t at = (number + b / kBlock * apart_) * kBlock + i;
    return LoadShared16(tile_ +
                        (kColumns ? Offset(at, line) : Offset(line, at)));
  }
  // This lane's block, for rare cases.
  __device__ __forceinline__ Words Block() const {
    const uint32_t lane = threadIdx.x % kWarp;
    Words x;
    for (uint32_t i = 0; i < kBlock / 2; ++i) {
      x.w[i] = Bits(lane, 2 * i) | Bits(lane, 2 * i + 1) << 16;
    }
    return x;
  }

 private:
  static constexpr uint32_t kRowOfSquares = kBlock * 128;

  static __device__ __forceinline__ uint32_t Offset(uint32_t row,
                                                    uint32_t col) {
    return static_cast<uint32_t>(
        TileOffset(static_cast<int>(row), static_cast<int>(col)));
  }

  uint32_t tile_;
  uint32_t first_;
  uint32_t apart_;
  uint32_t fragment_;
  uint32_t own_row_;
};

// The largest value of this lane's half warp. All lanes in the mask `lanes`
// must call this.
__device__ __forceinline__ uint32_t
LargestOfSixteen(uint32_t value, uint32_t lanes = 0xFFFFFFFFu) {
  QUANTD_UNROLL
  for (int apart = kBlock / 2; apart > 0; apart /= 2) {
    const uint32_t other = __shfl_xor_sync(lanes, value, apart);
    value = other > value ? other : value;
  }
  return value;
}

// Copies the warp's blocks of columns into the exchange. This lane's block is
// then at exchange.own().
__device__ __forceinline__ void Gather(const WarpLines<true>& lines,
                                       const Exchange& exchange) {
  __syncwarp();  // waits until the previous content has been read
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t x[4];
    lines.Load(h, x);
    exchange.SetHalves(h, {x[0], x[2], x[1], x[3]});
  }
  __syncwarp();
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_TILE_UNITS_CUH_
