// Measures the latency of a small tensor on the device.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_

#include <cstddef>

#include "nlohmann/json.hpp"
#include "tests/bench/gpu_bench_job.h"

namespace quantd::bench {

// Quantizes 2048 x 4096 bf16 to rowwise NVFP4 with a computed amax. Returns
// JSON:
//   us, graph_us: from the start of the first kernel to the end of the last,
//     all queued in one go while the device was busy, and replayed from a
//     graph; medians
//   launches: kernels, memsets and copies that are queued for it
//   host_waits: how often a job of the whole backend, copies included, waits
//     for the device
nlohmann::json MeasureLatency(const Place& place, size_t l2_bytes, int rounds);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_LATENCY_H_
