// Measures the latency of a small tensor on the device.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_

#include <cstddef>

#include "nlohmann/json.hpp"
#include "tests/bench/gpu_bench_job.h"

namespace quantd::bench {

// Quantizes 2048 x 4096 bf16 to rowwise NVFP4 with a computed amax. Returns
// JSON:
//   us, graph_us: median time from the start of the first kernel to the end of
//     the last, queued at once while the device was busy, and replayed from a
//     graph
//   launches: number of queued kernels, memsets and copies
//   host_waits: number of waits for the device in a job of the whole backend,
//     including copies
nlohmann::json MeasureLatency(const Place& place, size_t l2_bytes, int rounds);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_
