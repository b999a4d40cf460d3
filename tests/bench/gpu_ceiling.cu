#include <algorithm>

#include "tests/bench/gpu_ceiling.h"

namespace quantd {
namespace {

constexpr int kThreads = 256;
// The number of 16-byte accesses that a thread has in flight.
constexpr int kDepth = 4;
constexpr int64_t kPiece = kThreads * kDepth;
// The least number of these thread blocks that a multiprocessor holds at once.
constexpr int kBlocks = 8;

// Traffic cut into pieces. A piece has kPiece reads or writes, whichever are
// more, and a proportional number of the others. All numbers count accesses.
struct Pieces {
  const uint4* from;
  uint4* to;
  int64_t reads;
  int64_t writes;
  int piece_reads;
  int piece_writes;
  int64_t count;
};

__global__ void __launch_bounds__(kThreads, kBlocks)
    Move(Pieces p, uint32_t* sink) {
  uint32_t all = ~0u;
  for (int64_t piece = blockIdx.x; piece < p.count; piece += gridDim.x) {
    const int64_t read = piece * p.piece_reads;
    const int64_t reads = min(p.reads - read, int64_t{p.piece_reads});
    uint4 v[kDepth];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      v[i] = make_uint4(~0u, blockIdx.x, i, threadIdx.x);
      if (at < reads) v[i] = p.from[read + at];
    }
    const int64_t write = piece * p.piece_writes;
    const int64_t writes = min(p.writes - write, int64_t{p.piece_writes});
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      all &= v[i].x & v[i].y & v[i].z & v[i].w;
      if (at < writes) p.to[write + at] = v[i];
    }
  }
  if (all == ~0u) *sink = all;
}

// Returns the reads or writes of a piece: kPiece * `accesses` / `most`, rounded
// up to whole cache lines.
int Share(int64_t accesses, int64_t most) {
  constexpr int64_t kLine = 8;
  const int64_t lines = (accesses * kPiece + most * kLine - 1) / (most * kLine);
  return static_cast<int>(lines * kLine);
}

__global__ void __launch_bounds__(kThreads)
    Compare(const std::byte* a, const std::byte* b, int64_t bytes,
            uint32_t* differs) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t quads = bytes / 16;
  bool same = true;
  for (int64_t i = first; i < quads; i += step) {
    const uint4 x = reinterpret_cast<const uint4*>(a)[i];
    const uint4 y = reinterpret_cast<const uint4*>(b)[i];
    same &= x.x == y.x && x.y == y.y && x.z == y.z && x.w == y.w;
  }
  for (int64_t i = quads * 16 + first; i < bytes; i += step) {
    same &= a[i] == b[i];
  }
  if (!same) *differs = 1;
}

}  // namespace

cudaError_t LaunchTraffic(const Traffic& traffic, uint32_t* sink,
                          int multiprocessors, cudaStream_t stream) {
  Pieces p = {};
  p.from = reinterpret_cast<const uint4*>(traffic.from);
  p.to = reinterpret_cast<uint4*>(traffic.to);
  p.reads = static_cast<int64_t>(traffic.read / 16);
  p.writes = static_cast<int64_t>(traffic.written / 16);
  const int64_t most = std::max<int64_t>({p.reads, p.writes, 1});
  p.piece_reads = Share(p.reads, most);
  p.piece_writes = Share(p.writes, most);
  p.count = (most + kPiece - 1) / kPiece;
  const int64_t blocks =
      multiprocessors > 0
          ? std::min<int64_t>(p.count, multiprocessors * kBlocks)
          : p.count;
  Move<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p, sink);
  return cudaGetLastError();
}

cudaError_t LaunchCompare(const std::byte* a, const std::byte* b, size_t bytes,
                          uint32_t* differs, cudaStream_t stream) {
  Compare<<<1024, kThreads, 0, stream>>>(a, b, static_cast<int64_t>(bytes),
                                         differs);
  return cudaGetLastError();
}

}  // namespace quantd
