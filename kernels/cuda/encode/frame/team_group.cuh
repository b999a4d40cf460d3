// State that the warps of a team share: the current group, the tables for its
// amaxes, and memory for codes and squares.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_TEAM_GROUP_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_TEAM_GROUP_CUH_

#include "kernels/cuda/encode/frame/lines.cuh"
#include "kernels/cuda/encode/nvfp4/four_over_six.cuh"
#include "kernels/cuda/encode/nvfp4/tile_units.cuh"

namespace quantd::cuda {

// One copy of a group.
template <typename C>
struct FrameCopyOf {
  CopyTask task;
  LineTask lines;
  LineScale<Scalar> line;  // if all lines have the same amax
  std::conditional_t<C::kPicks, ErrorTable, int> errors;
  // The table of a cell that computes codes two at a time.
  std::conditional_t<C::kFits,
                     std::conditional_t<C::kDraws, ValueTable, FitTable>, int>
      fits;
};

// The current group of a team.
template <typename C>
class FrameGroup {
 public:
  using FrameCopy = FrameCopyOf<C>;
  struct Tables {
    FrameCopy copies[2];
    int64_t row;  // the group's first row in the payload
    uint32_t group;
    bool same;  // both copies have the same amax
  };

  // All threads of the team must call this.
  __device__ __forceinline__ FrameGroup(const EncodeArgs& a,
                                        const EncodeParams& p, Tables* tables)
      : args_(a), params_(p), tables_(tables) {
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
    Team::Sync();  // waits until the tables are no longer in use
    Fill(group);
  }

  __device__ __forceinline__ const FrameCopy& copy(bool columnwise) const {
    return tables_->copies[columnwise];
  }
  // All groups have the same copies.
  __device__ __forceinline__ bool wants(bool columnwise) const {
    return (columnwise ? args_.first.columnwise : args_.first.rowwise).data !=
           nullptr;
  }
  __device__ __forceinline__ bool same_amax() const { return tables_->same; }

  // The group's first row in the payload.
  __device__ __forceinline__ int64_t row() const { return tables_->row; }

 private:
  __device__ __forceinline__ bool alone() const {
    return args_.list.count == 1;
  }
  __device__ __forceinline__ void Fill(uint32_t group) {
    const GroupTask& task = alone() ? args_.first : args_.list.groups[group];
    FillCopy(task.rowwise, 0, &tables_->copies[0]);
    FillCopy(task.columnwise, kWarp, &tables_->copies[1]);
    if (Team::thread() == 0) {
      const float* const row = task.rowwise.amax;
      const float* const column = task.columnwise.amax;
      tables_->row = task.row;
      tables_->group = group;
      tables_->same = row != nullptr && column != nullptr &&
                      __float_as_uint(*row) == __float_as_uint(*column);
    }
    Team::Sync();
  }
  __device__ __forceinline__ void FillCopy(const CopyTask& task,
                                           unsigned thread, FrameCopy* copy) {
    if (task.data == nullptr) return;
    const bool one = task.amax != nullptr && task.amax_line == 0;
    const float amax = one ? *task.amax : 0.0f;
    if constexpr (C::kPicks) {
      copy->errors.Fill(Team::thread(), kThreads, amax, params_.range,
                        params_.nvfp4.fast_error);
    }
    if constexpr (C::kFits) {
      if (one) copy->fits.Fill(amax, params_.range);
    }
    if (Team::thread() != thread) return;
    copy->task = task;
    copy->lines = LineTask(task);
    copy->line =
        C::LineOf(params_, amax,
                  task.tensor_scale != nullptr ? *task.tensor_scale : 1.0f);
  }

  const EncodeArgs& args_;
  const EncodeParams& params_;
  Tables* tables_;
};

// A team's shared memory.
template <typename C, int kBytes>
struct FrameState {
  LineCodes::Storage codes[Team::kWarps];
  // Rotated lines of either copy.
  std::conditional_t<C::kRht, StagedTile, int> lines;
  // Copies of the Place of each warp's tile, which may already be released.
  Place places[C::kRht ? Team::kWarps : 1];
  // (Columns of fp32 are read from the tile directly.)
  Exchange::Storage exchange[kBytes == 2 ? Team::kWarps : 1];
  typename FrameGroup<C>::Tables group;
  // Scales of squares of 16 x 16, and maxima of the warps' lines. There are two
  // of each, because warps may still read those of the last tile.
  alignas(8) uint8_t squares[2][2][kSquares][kSquares];
  uint32_t tile_max[2][Team::kWarps];
  uint32_t tile_clean[2][Team::kWarps];

  // Sets the scales of four squares of a row, from square 4 * half on.
  __device__ __forceinline__ void SetSquares(int buffer, uint32_t row,
                                             uint32_t half, uint32_t of_rows,
                                             uint32_t of_columns) {
    *reinterpret_cast<uint32_t*>(&squares[buffer][0][row][half * 4]) = of_rows;
    *reinterpret_cast<uint32_t*>(&squares[buffer][1][row][half * 4]) =
        of_columns;
  }
  // The scales of the four squares in this lane's half of a warp's lines.
  __device__ __forceinline__ uint32_t SquaresOf(bool columns,
                                                int buffer) const {
    const uint32_t half = threadIdx.x % kWarp / kBlock;
    const uint32_t warp = Team::warp();
    if (!columns) {
      return *reinterpret_cast<const uint32_t*>(
          &squares[buffer][0][warp][half * 4]);
    }
    uint32_t word = 0;
    QUANTD_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      word |= uint32_t{squares[buffer][1][half * 4 + i][warp]} << (8 * i);
    }
    return word;
  }
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_TEAM_GROUP_CUH_
