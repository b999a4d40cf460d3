// Kernels that only move bytes, as the ceiling for others, and a kernel that
// compares bytes.
#ifndef QUANTD_TESTS_BENCH_GPU_CEILING_H_
#define QUANTD_TESTS_BENCH_GPU_CEILING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd {

// The device memory to read and to write. Each is a multiple of 16 bytes and
// 16-byte aligned; either may be empty.
struct Traffic {
  const std::byte* from;
  size_t read;
  std::byte* to;
  size_t written;
};

// Queues a kernel with this traffic, in accesses of 16 bytes, with reads and
// writes mixed evenly. With `multiprocessors` > 0 it has as many blocks as they
// hold at once, which loop; with 0 it has a block for each piece. `*sink`, in
// device memory, is written only for data that does not occur, so that the
// compiler keeps all reads.
cudaError_t LaunchTraffic(const Traffic& traffic, uint32_t* sink,
                          int multiprocessors, cudaStream_t stream);

// Queues a comparison. `*differs`, in device memory, becomes 1 if bytes differ.
cudaError_t LaunchCompare(const std::byte* a, const std::byte* b, size_t bytes,
                          uint32_t* differs, cudaStream_t stream);

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_GPU_CEILING_H_
