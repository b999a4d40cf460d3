// The kernel that shows how fast a GPU's memory can be read.
#ifndef QUANTD_TESTS_BENCH_GPU_CEILING_H_
#define QUANTD_TESTS_BENCH_GPU_CEILING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace quantd {

// Queues a read of `bytes` (a multiple of 16) at `data`. `*sink` is written
// only for data that does not occur, so that the reads cannot be dropped.
cudaError_t LaunchRead(const void* data, size_t bytes, uint32_t* sink,
                       int multiprocessors, cudaStream_t stream);

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_GPU_CEILING_H_
