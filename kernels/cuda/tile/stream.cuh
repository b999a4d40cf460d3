// Streams tiles of 128 x 128 elements into shared memory. One warp of a CTA
// sends them, by the tensor copy engine (sm_90 and later) or by asynchronous
// copies of 16 bytes, and teams of eight warps receive them in turn. Only the
// ring of tiles synchronizes the warps. A warp that has finished its part of a
// tile goes on to the next tile.
#ifndef QUANTD_KERNELS_CUDA_TILE_STREAM_CUH_
#define QUANTD_KERNELS_CUDA_TILE_STREAM_CUH_

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "kernels/cuda/args.h"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/tile/budget.cuh"
#include "kernels/cuda/tile/order.cuh"
#include "kernels/cuda/tile/place.cuh"
#include "kernels/cuda/tile/span.cuh"
#include "kernels/cuda/tile/team.cuh"

// Warps can give registers to others on sm_90a, sm_100a and similar targets,
// but not on sm_90.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_SPECIFIC__)
#define QUANTD_MOVES_REGISTERS
#endif

namespace quantd::cuda {

// A ring of kStages tiles, which a CTA's teams receive in turn, in the order of
// TileOrder<kUnit>. Elements have kElementBytes. kTeamRegisters is the number
// of registers of a team's thread after the sender has given up some. 0 keeps
// the initial numbers.
template <int kTeamCount, int kStages, uint32_t kUnit, int kElementBytes = 2,
          int kTeamRegisters = kTeamCount == 3 ? 80 : 0>
class TileStream {
 public:
  static constexpr int kTeams = kTeamCount;
  static constexpr int kBytes = kElementBytes;
  using Tile = StagedTileOf<kBytes>;
  using Source = TileSource<kUnit>;
  // The threads of a CTA: the teams, then four warps. The first of the four
  // sends. Only a whole warpgroup can give up registers, and three teams need
  // more than the 72 that all threads start with.
  static constexpr int kCtaThreads = kTeams * kThreads + 4 * kWarp;
  static_assert(kStages >= kTeams);

  static constexpr int kFull = std::lcm(kTeams, kStages);

  // Registers that the sender keeps. (With two teams there are enough for 32,
  // but tiles of fp32 then arrive later.)
  static constexpr int kSenderRegisters = kTeams == 3 || kBytes == 4 ? 24 : 32;

  // Shared memory.
  using Tiles = Tile[kStages];
  struct Control {
    // Barriers for tiles that have arrived. Each barrier belongs to one team,
    // so that no thread waits for a phase that is two phases ahead.
    uint64_t full[kFull];
    uint64_t left[kStages];  // for tiles that the team has released
    alignas(16) Place places[kStages];
  };

  // All threads of the CTA must call this.
  __device__ __forceinline__ TileStream(Tiles* tiles, Control* control)
      : tiles_(*tiles), control_(control) {
    if (threadIdx.x == kTeams * kThreads) {
      for (uint64_t& full : control->full) InitBarrier(&full, kSenders);
      for (uint64_t& left : control->left) InitBarrier(&left, Team::kWarps);
#if __CUDA_ARCH__ >= 900
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    }
    __syncthreads();
    // ReceiveWith advances these to the first tile.
    const auto team = static_cast<int>(Team::number());
    stage_ = team - kTeams + kStages;
    full_ = team - kTeams + kFull;
  }

  static __device__ __forceinline__ bool sends() {
    return threadIdx.x >= kTeams * kThreads;
  }

  // Sends all tiles. The threads for which sends() is true must call this.
  // `first` is group 0.
  __device__ __forceinline__ void Send(const GroupList& list,
                                       const GroupTask& first,
                                       const Source& source) {
#ifdef QUANTD_MOVES_REGISTERS
    if constexpr (kTeamRegisters > 0) {
      asm volatile(
          "setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kSenderRegisters));
    }
#endif
    if (threadIdx.x >= kTeams * kThreads + kWarp) return;
    // Lane t has the next item of team t.
    const uint32_t lane = threadIdx.x % kWarp;
    const TileOrder<kUnit>& order = source.order;
    uint32_t item = lane < kTeams ? order.First(lane) : ~0u;
    int stage = 0;
    int full = 0;
    uint32_t parity = 1;  // parity of a stage that is still unused
    bool more = true;
    while (more) {
      const bool exists = item < order.items();
      more = __any_sync(0xFFFFFFFFu, exists);
      // Each lane finds one tile; then the lanes send their tiles one after
      // another. After the last items, each team gets a tile that marks the
      // end.
      const bool units = __any_sync(0xFFFFFFFFu, item < order.units());
      const uint32_t count = units ? kTeams * kUnit : kTeams;
      const Sending mine =
          Find(order, list, first,
               __shfl_sync(0xFFFFFFFFu, item, static_cast<int>(lane % kTeams)),
               lane / kTeams, more);
#pragma unroll 1
      for (uint32_t turn = 0; turn < count; ++turn) {
        WaitFor(&control_->left[stage], parity);
        __syncwarp();  // otherwise a lane might miss the short phase
        Post(stage, &control_->full[full], turn, mine, list, first, source);
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
        if (++full == kFull) full = 0;
      }
      if (!exists) continue;
      AwaitKernelBefore();  // which may use the tickets
      item = order.teams() + atomicInc(source.tickets, order.items() - 1);
    }
#if __CUDA_ARCH__ < 900
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

  // Takes more registers. The teams' warps must call this before they call the
  // functions below.
  __device__ __forceinline__ void Begin() {
#ifdef QUANTD_MOVES_REGISTERS
    if constexpr (kTeamRegisters > 0) {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kTeamRegisters));
    }
#endif
  }
  // Waits for the team's next tile, which has zeros below its rows and to the
  // right of its columns. Returns false after the last tile. `alone` says that
  // the list has only one group.
  __device__ __forceinline__ bool Receive(bool alone) {
    return ReceiveWith([&](int rows) { return !alone && rows != kTileSide; });
  }
  // Like Receive, but the tile has zeros below its rows only if
  // needs_zeros(rows). Otherwise other groups' rows or an earlier tile's rows
  // may be there.
  template <typename F>
  __device__ __forceinline__ bool ReceiveWith(const F& needs_zeros) {
    while (true) {
      stage_ += kTeams;
      if (stage_ >= kStages) stage_ -= kStages;
      full_ += kTeams;
      if (full_ >= kFull) {
        full_ -= kFull;
        parity_ ^= 1;
      }
      WaitFor(&control_->full[full_], parity_);
      const int rows = place().rows;
      if (rows == Place::kNoMore) return false;
      if (rows != 0) {
        if (needs_zeros(rows)) ZeroRest(rows);
        return true;
      }
      Release();
    }
  }
  __device__ __forceinline__ const Place& place() const {
    return control_->places[stage_];
  }
  __device__ __forceinline__ const Tile& tile() const { return tiles_[stage_]; }
  // Says that this warp no longer needs the tile and its Place.
  __device__ __forceinline__ void Release() {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) ArriveAt(&control_->left[stage_]);
  }

 private:
  // Pieces of 16 bytes in a row of a tile, and the elements of a piece.
  static constexpr int kPieces = 8 * kBytes;
  static constexpr int kPiece = 16 / kBytes;
#if __CUDA_ARCH__ >= 900
  static constexpr uint32_t kSenders = 1;
#else
  static constexpr uint32_t kSenders = kWarp + 1;
#endif

  // A tile's Place, and its first row in the payload.
  struct Sending {
    Place at;
    uint32_t row;
  };
  // Finds tile `part` of an item, or the mark of the end.
  __device__ __forceinline__ Sending Find(const TileOrder<kUnit>& order,
                                          const GroupList& list,
                                          const GroupTask& first, uint32_t item,
                                          uint32_t part, bool more) {
    Sending s = {};
    if (!more) s.at.rows = Place::kNoMore;
    typename TileOrder<kUnit>::Tile tile;
    if (!order.Find(item, part, &tile)) return s;
    uint32_t start = 0;  // start of the group's chunks
    auto end = static_cast<uint32_t>(list.chunk_count);
    auto rows = static_cast<uint32_t>(first.rows);
    s.row = static_cast<uint32_t>(first.row);
    if (list.count != 1) {
      const int64_t g = FindEntry(list.chunks, list.count, tile.chunk);
      s.at.group = static_cast<uint32_t>(g);
      start = static_cast<uint32_t>(list.chunks[g]);
      end = static_cast<uint32_t>(list.chunks[g + 1]);
      rows = static_cast<uint32_t>(list.groups[g].rows);
      s.row = static_cast<uint32_t>(list.groups[g].row);
    }
    s.at.chunk = tile.chunk - start;
    s.at.row = s.at.chunk * kTileSide;
    s.row += s.at.row;
    s.at.rows = AtMostSide(rows - s.at.row);
    s.at.col = tile.column * kTileSide;
    s.at.cols = AtMostSide(static_cast<uint32_t>(list.cols) - s.at.col);
    s.at.number = tile.chunk - max(tile.top, start);
    s.at.last = tile.chunk + 1 == min(tile.bottom, end);
    return s;
  }
  static __device__ __forceinline__ int AtMostSide(uint32_t n) {
    return static_cast<int>(n < kTileSide ? n : kTileSide);
  }

  // Writes the Place of the tile that lane `turn` has found. Starts copying the
  // tile if it exists.
  __device__ __forceinline__ void Post(int stage, uint64_t* full, uint32_t turn,
                                       const Sending& mine,
                                       const GroupList& list,
                                       const GroupTask& first,
                                       const Source& source) {
    const bool leads = threadIdx.x % kWarp == turn;
    Place* const place = &control_->places[stage];
    const uint32_t to = SharedAddress(tiles_[stage].bytes);
#if __CUDA_ARCH__ >= 900
    if (!leads) return;
    if (mine.at.rows <= 0) {
      PutPlace(mine.at, place);
      ArriveAt(full);
      return;
    }
    // Rows beyond the payload count, too: the copy engine fills in zeros.
    const uint32_t high = 1u << source.log_rows;
    const uint32_t rows =
        (static_cast<uint32_t>(mine.at.rows) + high - 1) & (0u - high);
    Expect(full, rows * (128 * kBytes));
    for (uint32_t row = 0; row < rows; row += high) {
      QUANTD_UNROLL
      for (uint32_t box = 0; box < kBytes; ++box) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
            ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                to + box * kTileBox + row * 128),
            "l"(&source.map), "r"(mine.at.col + box * (128 / kBytes)),
            "r"(mine.row + row), "r"(SharedAddress(full))
            : "memory");
      }
    }
    PutPlace(mine.at, place);
    ArriveAt(full);
#else
    const auto of = [turn](auto mine) {
      return __shfl_sync(0xFFFFFFFFu, static_cast<uint32_t>(mine),
                         static_cast<int>(turn));
    };
    const auto rows = static_cast<int>(of(mine.at.rows));
    if (rows > 0) {
      const auto cols = static_cast<int>(of(mine.at.cols));
      const std::byte* const from =
          first.x +
          (int64_t{of(mine.row)} * list.cols + of(mine.at.col)) * kBytes;
      const int piece = static_cast<int>(threadIdx.x % kPieces);
      for (int r = static_cast<int>(threadIdx.x % kWarp / kPieces);
           r < kTileSide; r += kWarp / kPieces) {
        const bool there = r < rows && piece * kPiece < cols;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                to + TileOffset<kBytes>(r, piece * kPiece)),
            "l"(there ? from + r * list.cols * kBytes + piece * 16 : first.x),
            "r"(there ? 16 : 0)
            : "memory");
      }
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                     SharedAddress(full))
                 : "memory");
    if (leads) {
      PutPlace(mine.at, place);
      ArriveAt(full);
    }
#endif
  }

  // Zeroes the rows below a tile. The copy engine only zeroes rows beyond the
  // payload, but these rows may belong to another group.
  __device__ __forceinline__ void ZeroRest(int rows) {
#if __CUDA_ARCH__ >= 900
    // Mbarriers already order these writes after all reads of the stage's
    // previous tile. The barrier is for compute-sanitizer, which does not
    // follow mbarriers.
    if constexpr (kStages == kTeams) Team::Sync();
    std::byte* const bytes = tiles_[stage_].bytes;
    for (int i = rows * kPieces + static_cast<int>(Team::thread());
         i < kTileSide * kPieces; i += kThreads) {
      *reinterpret_cast<uint4*>(
          bytes + TileOffset<kBytes>(i / kPieces, i % kPieces * kPiece)) =
          make_uint4(0, 0, 0, 0);
    }
    // Orders these writes before later ones of the copy engine.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    Team::Sync();
#endif
  }

  Tiles& tiles_;
  Control* const control_;
  int stage_;
  int full_;
  uint32_t parity_ = 1;
};

// Kernels that use the functions below need a type Shared of shared memory with
//   Stream              its TileStream
//   tiles, control      the stream's memory; `tiles` comes first
//   Begin()             called by all threads, before a barrier
//
// RunTileStream is the body of a kernel whose CTAs receive a stream of the
// list's tiles. Some threads send the tiles, the others call body(shared,
// stream). All threads of the CTA must call it, as the last thing they do.
template <SharedMemory kSize, typename Shared, typename Args, typename Body>
__device__ __forceinline__ void RunTileStream(
    const Args& a, const typename Shared::Stream::Source& source,
    const Body& body) {
#ifdef __CUDA_ARCH__
  if constexpr (kIsBuilt<kSize>) {
    LetNextKernelStart();
    extern __shared__ __align__(1024) std::byte shared_bytes[];
    auto& shared = *reinterpret_cast<Shared*>(shared_bytes);
    shared.Begin();
    typename Shared::Stream stream(&shared.tiles, &shared.control);
    if (stream.sends()) {
      stream.Send(a.list, a.first, source);
      return;
    }
    stream.Begin();
    AwaitKernelBefore();
    body(shared, stream);
  } else {
    __trap();
  }
#endif
}

// Launches a kernel that calls RunTileStream. `more` are further arguments.
template <SharedMemory kSize, typename Shared, typename Args, typename... More>
cudaError_t LaunchTileStream(
    void (*kernel)(Args, typename Shared::Stream::Source, More...),
    const Args& a, const Queue& queue, const More&... more) {
  using Stream = typename Shared::Stream;
  static_assert(sizeof(Shared) <= BytesOf(kSize));
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return error;
  const unsigned ctas = GridFor(TileCount(a.list), 1, queue);
  // A columnwise copy alone is written fastest from top to bottom.
  const bool down =
      a.first.columnwise.data != nullptr && a.first.rowwise.data == nullptr;
  typename Stream::Source source = {{},
                                    {a.list, ctas, Stream::kTeams, down},
                                    queue.tickets,
                                    a.list.count == 1 ? 7u : 5u};
  error = MakeTensorMap(a.first.x, Stream::kBytes, a.list.rows, a.list.cols,
                        1 << source.log_rows, &source.map);
  if (error != cudaSuccess) return error;
  return LaunchEarly(kernel, ctas, {Stream::kCtaThreads, sizeof(Shared)}, queue,
                     a, source, more...);
}

}  // namespace quantd::cuda

#undef QUANTD_MOVES_REGISTERS

#endif  // QUANTD_KERNELS_CUDA_TILE_STREAM_CUH_
