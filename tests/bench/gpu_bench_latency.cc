#include "tests/bench/gpu_bench_latency.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device/devices.h"
#include "kernels/plan/geometry.h"
#include "tests/bench/gpu_bench_check.h"
#include "tests/bench/gpu_bench_rows.h"
#include "tests/bench/gpu_ceiling.h"

namespace {

// Counts waits of the host that found the device still busy.
std::atomic<int> host_waits = 0;

void CountWait(cudaError_t state) {
  if (state == cudaErrorNotReady) ++host_waits;
}

}  // namespace

// The linker redirects every call of these functions to the wrappers here
// (tests/gpu/CMakeLists.txt).
extern "C" {
cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __real_cudaDeviceSynchronize();

cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream) {
  CountWait(cudaStreamQuery(stream));
  return __real_cudaStreamSynchronize(stream);
}
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  CountWait(cudaEventQuery(event));
  return __real_cudaEventSynchronize(event);
}
cudaError_t __wrap_cudaDeviceSynchronize() {
  ++host_waits;
  return __real_cudaDeviceSynchronize();
}
}

namespace quantd::bench {
namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kCols = 4096;
// This many reads keep the device busy for longer than queueing takes.
constexpr int kBusyReads = 20;

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

int CountHostWaits(const Plan& plan, const Content& content) {
  const std::unique_ptr<Backend> backend = Must(OpenBackend("cuda:0"));
  int waits = 0;
  // The first job also fills pools and loads kernels.
  for (int i = 0; i < 2; ++i) {
    host_waits = 0;
    auto job = Must(backend->Begin(std::make_shared<const Plan>(plan)));
    std::memcpy(job->staging().data(), content.rows_of_period.data(),
                content.bytes());
    Must(job->Run());
    job.reset();
    waits = host_waits;
  }
  return waits;
}

}  // namespace

nlohmann::json MeasureLatency(const Place& place, size_t l2_bytes, int rounds) {
  const cudaStream_t stream = place.queue.stream;
  const Content content = MakeContent(DType::kBF16, kRows, kCols);
  const RowSpec row = SelectRows({"nvfp4_row_amax"}).front();
  const Plan plan = PlanOf(row, content.dtype, kRows, kCols, 0);

  // A tensor has left the cache when it is quantized again.
  const size_t busy_bytes = RoundUp(3 * l2_bytes, 16);
  const Memory busy(busy_bytes);
  const Memory sink(sizeof(uint32_t));
  const Memory in(content.bytes());
  const Memory out(plan.output_bytes());
  Check(cudaMemsetAsync(busy.data(), 0, busy_bytes, stream), "fill");
  Check(cudaMemcpyAsync(in.data(), content.rows_of_period.data(),
                        content.bytes(), cudaMemcpyHostToDevice, stream),
        "fill");
  DeviceJob job(plan, place, in.data(), out.data());
  Check(job.QueueWhole(), "latency");

  cudaGraph_t graph;
  cudaGraphExec_t replay;
  size_t launches = 0;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        "latency");
  Check(job.QueueAgain(cuda::Part::kKernels), "latency");
  Check(cudaStreamEndCapture(stream, &graph), "latency");
  Check(cudaGraphGetNodes(graph, nullptr, &launches), "latency");
  Check(cudaGraphInstantiate(&replay, graph, 0), "latency");
  Check(cudaGraphUpload(replay, stream), "latency");

  cudaEvent_t start;
  cudaEvent_t stop;
  Check(cudaEventCreate(&start), "event");
  Check(cudaEventCreate(&stop), "event");
  const auto measure = [&](const std::function<cudaError_t()>& launch) {
    for (int i = 0; i < kBusyReads; ++i) {
      Check(LaunchTraffic({busy.data(), busy_bytes, nullptr, 0},
                          reinterpret_cast<uint32_t*>(sink.data()), 0, stream),
            "latency");
    }
    Check(cudaEventRecord(start, stream), "event");
    Check(launch(), "latency");
    Check(cudaEventRecord(stop, stream), "event");
    Check(cudaStreamSynchronize(stream), "latency");
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, start, stop), "event");
    return ms * 1e3;
  };
  std::vector<double> queued, replayed;
  for (int round = -1; round < rounds; ++round) {
    const double q =
        measure([&] { return job.QueueAgain(cuda::Part::kKernels); });
    const double r = measure([&] { return cudaGraphLaunch(replay, stream); });
    if (round < 0) continue;
    queued.push_back(q);
    replayed.push_back(r);
  }
  Check(cudaGraphExecDestroy(replay), "latency");
  Check(cudaGraphDestroy(graph), "latency");
  Check(cudaEventDestroy(start), "event");
  Check(cudaEventDestroy(stop), "event");
  return {{"name", "latency_amax_quantize"},
          {"shape", content.shape()},
          {"dtype", "bf16"},
          {"us", Median(queued)},
          {"graph_us", Median(replayed)},
          {"launches", launches},
          {"host_waits", CountHostWaits(plan, content)}};
}

}  // namespace quantd::bench
