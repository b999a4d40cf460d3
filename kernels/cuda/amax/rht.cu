#include "kernels/cuda/amax/reduce.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/tile/tile.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

// Running maxima of one thread.
struct Running {
  Found found = {};

  // Adds a block whose MaxMagnitude is `max`. Drops NaN; if there is one,
  // records `nan_bit`.
  __device__ __forceinline__ void Add(const float (&v)[kBlock], uint32_t max,
                                      uint32_t Found::*which,
                                      uint32_t nan_bit) {
    if (max > kInfBits) {
      found.seen |= nan_bit;
      max = MaxNumber<Scalar>(v);
    }
    found.*which = max > found.*which ? max : found.*which;
  }

  __device__ __forceinline__ void AddRaw(const float (&v)[kBlock]) {
    const uint32_t max = MaxMagnitude<Scalar>(v);
    found.seen |= SeenIn(v, max);
    Add(v, max, &Found::plain, kSeenNan);
  }
};

__device__ __forceinline__ void Finish(const Running& r, const AmaxArgs& a) {
  AwaitKernelBefore();
  ReduceTo(r.found.plain, &a.found->plain);
  if (a.row_signs) ReduceTo(r.found.row_rht, &a.found->row_rht);
  if (a.col_signs) ReduceTo(r.found.col_rht, &a.found->col_rht);
  Report(r.found.seen, a.found);
}

// Finds max |x| without a rotation. The result does not depend on which
// elements form a block, so a thread's elements are chosen such that its warp
// reads whole cache lines, by several loads at once. Plain reads in this
// pattern come closest to the memory's bandwidth.
template <DType D>
__global__ void __launch_bounds__(kThreads) PlainAmax(AmaxArgs a) {
  LetNextKernelStart();
  constexpr int kQuads = RawBlock<D>::kQuads;
  constexpr int kAtOnce = 8 / kQuads;  // blocks of a thread
  constexpr int64_t kPiece = int64_t{kThreads} * kAtOnce * kBlock;
  const int64_t elements = a.x.rows * a.x.cols;
  const int64_t pieces = elements / kPiece;
  Running running;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const auto* const quads =
        reinterpret_cast<const uint4*>(a.x.data + piece * kPiece * kSizeOf<D>) +
        threadIdx.x;
    RawBlock<D> raw[kAtOnce];
    QUANTD_UNROLL
    for (int i = 0; i < kAtOnce * kQuads; ++i) {
      const uint4 q = quads[i * kThreads];
      uint32_t* const words = raw[i / kQuads].words + 4 * (i % kQuads);
      words[0] = q.x;
      words[1] = q.y;
      words[2] = q.z;
      words[3] = q.w;
    }
    QUANTD_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      float v[kBlock];
      Decode<D>(raw[i], v);
      running.AddRaw(v);
    }
  }
  for (int64_t at = pieces * kPiece + FirstItem() * kBlock; at < elements;
       at += ItemStep() * kBlock) {
    float v[kBlock];
    Decode<D>(LoadPart<D>(a.x.data + at * kSizeOf<D>, elements - at), v);
    running.AddRaw(v);
  }
  Finish(running, a);
}

// Finds max |x| and the maximum of the rotated rows. Treats the matrix as a
// sequence of blocks.
template <DType D>
__global__ void __launch_bounds__(kThreads) AmaxOfRows(AmaxArgs a) {
  LetNextKernelStart();
  const int64_t blocks = a.x.rows * a.x.cols / kBlock;
  Running running;
  for (int64_t b = FirstItem(); b < blocks; b += ItemStep()) {
    float v[kBlock];
    Decode<D>(LoadBlock<D>(a.x.data + b * kBlock * kSizeOf<D>), v);
    running.AddRaw(v);
    const uint32_t max = RotateToBf16<Scalar, kIsHalf<D>>(v, a.row_signs);
    running.Add(v, max, &Found::row_rht, kSeenRowRhtNan);
  }
  Finish(running, a);
}

// Finds max |x|, the maximum of the rotated columns and, if there are row
// signs, the maximum of the rotated rows.
template <DType D>
__global__ void __launch_bounds__(kThreads) AmaxOfTiles(AmaxArgs a) {
  LetNextKernelStart();
  __shared__ SharedTile<D> tile;
  const TileGrid grid(a.x.rows, a.x.cols);
  Running running;
  for (int64_t t = blockIdx.x; t < grid.count; t += gridDim.x) {
    RawBlock<D> raw[kPerThread];
    LoadTile<D>(a.x, grid.row(t), grid.col(t), raw);
    __syncthreads();  // waits until the previous tile has been read
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      StoreBlock<D>(raw[i], tile.at(RowSlot::row(i), RowSlot::col()));
      float v[kBlock];
      Decode<D>(raw[i], v);
      running.AddRaw(v);
      if (a.row_signs != nullptr) {
        const uint32_t max = RotateToBf16<Scalar, kIsHalf<D>>(v, a.row_signs);
        running.Add(v, max, &Found::row_rht, kSeenRowRhtNan);
      }
    }
    __syncthreads();
    QUANTD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      float v[kBlock];
      LoadColumn<D>(tile, i, v);
      const uint32_t max = RotateToBf16<Scalar, kIsHalf<D>>(v, a.col_signs);
      running.Add(v, max, &Found::col_rht, kSeenColRhtNan);
    }
  }
  Finish(running, a);
}

// --- launchers --------------------------------------------------------------

// The number of CTAs for all blocks, where a part of a block counts as one.
unsigned CtasFor(const AmaxArgs& a, const Queue& queue) {
  return GridForBlocks((a.x.rows * a.x.cols + kBlock - 1) / kBlock, queue);
}

}  // namespace

cudaError_t LaunchPlainAmax(const AmaxArgs& a, const Queue& queue) {
  return ForDType(a.x.dtype, [&](auto d) {
    return LaunchEarly(&PlainAmax<d()>, CtasFor(a, queue), {kThreads}, queue,
                       a);
  });
}

cudaError_t LaunchAmaxOfRows(const AmaxArgs& a, const Queue& queue) {
  return ForDType(a.x.dtype, [&](auto d) {
    return LaunchEarly(&AmaxOfRows<d()>, CtasFor(a, queue), {kThreads}, queue,
                       a);
  });
}

cudaError_t LaunchAmaxOfTiles(const AmaxArgs& a, const Queue& queue) {
  const TileGrid grid(a.x.rows, a.x.cols);
  return ForDType(a.x.dtype, [&](auto d) {
    return LaunchEarly(&AmaxOfTiles<d()>, GridFor(grid.count, 8, queue),
                       {kThreads}, queue, a);
  });
}

}  // namespace quantd::cuda
