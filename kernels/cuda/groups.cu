// Kernels for whole groups: scales of FP8 tensors, column sums for dbias, and
// zeros between the parts of the output.
#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx/next_kernel.cuh"
#include "kernels/cuda/tile/span.cuh"

namespace quantd::cuda {
namespace {

// --- kernels ----------------------------------------------------------------

// Computes the scales of FP8 tensors, with one thread for each group.
__global__ void __launch_bounds__(kThreads)
    TensorScales(const __grid_constant__ TensorScaleArgs a) {
  LetNextKernelStart();
  AwaitKernelBefore();
  const int64_t g = FirstItem();
  if (g >= a.list.count) return;
  const GroupTask& group = a.list.groups[g];
  for (int direction = 0; direction < 2; ++direction) {
    const CopyTask& copy = direction == 0 ? group.rowwise : group.columnwise;
    if (copy.data == nullptr) continue;
    const float scale = a.scales != nullptr
                            ? a.scales[g]
                            : TensorScaleOf(a.params, AmaxOf(copy, 0));
    *copy.tensor_scale = scale;
    StoreScaleAs(a.params.scale, StoredTensorScale(a.params, scale), 0,
                 copy.scale);
  }
}

// Sums the columns of chunks of 128 rows, with one thread for each column of a
// chunk. A CTA's columns are neighbours.
template <DType D>
__global__ void __launch_bounds__(kThreads) SumChunks(GroupList list) {
  const int64_t cols = list.cols;
  const int64_t across = (cols + kThreads - 1) / kThreads;
  const int64_t pieces = list.chunk_count * across;
  for (int64_t i = blockIdx.x; i < pieces; i += gridDim.x) {
    const int64_t chunk = i / across;
    const int64_t col = (i - chunk * across) * kThreads + threadIdx.x;
    if (col >= cols) continue;
    const int64_t g = FindEntry(list.chunks, list.count, chunk);
    const GroupTask& group = list.groups[g];
    const int64_t number = chunk - list.chunks[g];
    const int64_t first = number * kTileSide;
    const int64_t rest = group.rows - first;
    const int count = static_cast<int>(rest < kTileSide ? rest : kTileSide);
    const std::byte* p = group.x + (first * cols + col) * kSizeOf<D>;
    float sum = 0.0f;
#pragma unroll 8
    for (int r = 0; r < count; ++r) {
      sum = sum + DecodeElement<D>(LoadBits<D>(p));
      p += cols * kSizeOf<D>;
    }
    group.partial[number * cols + col] = sum;
  }
}

inline constexpr int kSumWarps = kThreads / 32;
inline constexpr int kSumBatch = 128;  // chunks in flight

// Adds up the sums of a group's chunks, with one CTA for 32 columns. The warps
// load the sums, one chunk each at a time, and the first warp adds them.
template <DType D>
__global__ void __launch_bounds__(kThreads) SumGroups(GroupList list) {
  __shared__ float sums[kSumBatch][32];
  const uint32_t across = static_cast<uint32_t>((list.cols + 31) / 32);
  const uint32_t g = blockIdx.x / across;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t col = int64_t{blockIdx.x - g * across} * 32 + lane;
  const bool inside = col < list.cols;
  const GroupTask& group = list.groups[g];
  const int64_t chunks = list.chunks[g + 1] - list.chunks[g];
  const float* p = group.partial + warp * list.cols + col;
  std::byte* const to = group.dbias + col * kSizeOf<D>;
  AwaitKernelBefore();
  float total = 0.0f;
  for (int64_t c = 0; c < chunks; c += kSumBatch) {
    const int64_t left = chunks - c;
    const int count = left < kSumBatch ? static_cast<int>(left) : kSumBatch;
    float loaded[kSumBatch / kSumWarps];
    QUANTD_UNROLL
    for (int i = 0; i < kSumBatch / kSumWarps; ++i) {
      loaded[i] = 0.0f;
      if (i * kSumWarps + warp < count && inside) loaded[i] = *p;
      p += kSumWarps * list.cols;
    }
    QUANTD_UNROLL
    for (int i = 0; i < kSumBatch / kSumWarps; ++i) {
      sums[i * kSumWarps + warp][lane] = loaded[i];
    }
    __syncthreads();
    if (warp == 0) {
      // Adds in order, because the order determines the result.
#pragma unroll 16
      for (int b = 0; b < count; ++b) total = total + sums[b][lane];
    }
    __syncthreads();
  }
  if (warp == 0 && inside) StoreBits<D>(EncodeElement<D>(total), to);
}

// Zeroes the piece that begins at byte `first` of a run. Bytes between the
// run's rows do not count.
__device__ __forceinline__ void ZeroPiece(const ZeroRunsArgs::Run& run,
                                          int64_t first) {
  const auto width = static_cast<int64_t>(run.width);
  const int64_t bytes = width * static_cast<int64_t>(run.count);
  const int64_t end = first + ZeroRunsArgs::kPiece;
  for (int64_t b = first + threadIdx.x; b < end && b < bytes; b += kThreads) {
    const int64_t row = run.count > 1 ? b / width : 0;
    run.to[row * static_cast<int64_t>(run.pitch) + (b - row * width)] =
        std::byte{0};
  }
}

__global__ void __launch_bounds__(kThreads) ZeroRuns(ZeroRunsArgs a) {
  LetNextKernelStart();
  AwaitKernelBefore();
  for (int64_t i = blockIdx.x; i < a.piece_count; i += gridDim.x) {
    const int64_t r = FindEntry(a.pieces, a.count, i);
    ZeroPiece(a.runs[r], (i - a.pieces[r]) * ZeroRunsArgs::kPiece);
  }
}

// Zeroes runs. CTA i zeroes piece i of every run that has this piece.
__global__ void __launch_bounds__(kThreads)
    ZeroFewRuns(const __grid_constant__ ZeroFewRunsArgs a) {
  LetNextKernelStart();
  AwaitKernelBefore();
  for (int r = 0; r < a.count; ++r) {
    ZeroPiece(a.runs[r], blockIdx.x * ZeroRunsArgs::kPiece);
  }
}

}  // namespace

// --- launchers --------------------------------------------------------------

cudaError_t LaunchSumChunks(const GroupList& list, DType input,
                            const Queue& queue) {
  const int64_t across = (list.cols + kThreads - 1) / kThreads;
  return ForDType(input, [&](auto d) {
    SumChunks<d()><<<GridFor(list.chunk_count * across, 8, queue), kThreads, 0,
                     queue.stream>>>(list);
    return cudaGetLastError();
  });
}

cudaError_t LaunchTensorScales(const TensorScaleArgs& a, const Queue& queue) {
  const auto ctas =
      static_cast<unsigned>((a.list.count + kThreads - 1) / kThreads);
  return LaunchEarly(&TensorScales, ctas, {kThreads}, queue, a);
}

cudaError_t LaunchSumGroups(const GroupList& list, DType output,
                            const Queue& queue) {
  const int64_t ctas = list.count * ((list.cols + 31) / 32);
  return ForDType(output, [&](auto d) {
    return LaunchEarly(&SumGroups<d()>, static_cast<unsigned>(ctas), {kThreads},
                       queue, list);
  });
}

cudaError_t LaunchZeroRuns(const ZeroRunsArgs& a, const Queue& queue) {
  return LaunchEarly(&ZeroRuns, GridFor(a.piece_count, 8, queue), {kThreads},
                     queue, a);
}

cudaError_t LaunchZeroFewRuns(const ZeroFewRunsArgs& a, const Queue& queue) {
  size_t most = 0;
  for (int r = 0; r < a.count; ++r) {
    most = std::max(most, a.runs[r].width * a.runs[r].count);
  }
  constexpr size_t kPiece = ZeroRunsArgs::kPiece;
  return LaunchEarly(&ZeroFewRuns,
                     static_cast<unsigned>((most + kPiece - 1) / kPiece),
                     {kThreads}, queue, a);
}

}  // namespace quantd::cuda
