// Kernels that do nothing but move bytes: what others are measured against.
// And one that compares.
#ifndef QUANTD_TESTS_BENCH_GPU_CEILING_H_
#define QUANTD_TESTS_BENCH_GPU_CEILING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd {

// Device memory to read and to write, each a multiple of 16 bytes and 16-byte
// aligned. Either may be empty.
struct Traffic {
  const std::byte* from;
  size_t read;
  std::byte* to;
  size_t written;
};

// Queues a kernel with that traffic, 16 bytes an access, reads and writes mixed
// evenly over its run. `multiprocessors` > 0: as many blocks as they hold at
// once, which loop; 0: a block for each piece. `*sink`, on the device, is
// written only for data that does not occur, so that no read can be dropped.
cudaError_t LaunchTraffic(const Traffic& traffic, uint32_t* sink,
                          int multiprocessors, cudaStream_t stream);

// Queues a comparison; `*differs`, on the device, becomes 1 where they do.
cudaError_t LaunchCompare(const std::byte* a, const std::byte* b, size_t bytes,
                          uint32_t* differs, cudaStream_t stream);

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_GPU_CEILING_H_
