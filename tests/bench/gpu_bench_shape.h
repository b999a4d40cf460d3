// Measures rows of one shape, and memory traffic of the same sizes.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_SHAPE_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_SHAPE_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/device/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/gpu_bench_check.h"
#include "tests/bench/gpu_bench_job.h"
#include "tests/bench/gpu_bench_rows.h"

namespace quantd::bench {

// A measurement that alternates with others: a CUDA graph of launches that
// rotate over buffers. Its time is the median over rounds of the time of one
// launch.
class Timed {
 public:
  // `launch(i)` queues a launch on buffer i. `before`, if any, queues work that
  // the graph needs but that is not measured.
  Timed(std::string name, double bytes, std::function<cudaError_t(int)> launch,
        std::function<cudaError_t()> before = nullptr);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  // Captures launches over `buffers` buffers: at least one for each, and enough
  // that gaps between graphs do not matter.
  void Capture(cudaStream_t stream, int buffers);
  // Queues a round. Collect reads its time once the stream has finished it.
  void Queue(cudaStream_t stream);
  void Collect(bool warm_up);

  double us() const { return Median(us_); }
  double tbps() const { return bytes_ / us() * 1e-6; }

 private:
  const std::string name_;
  const double bytes_;
  const std::function<cudaError_t(int)> launch_;
  const std::function<cudaError_t()> before_;
  int launches_ = 0;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  std::vector<double> us_;
};

class ShapeBench {
 public:
  // `l2_bytes` is the size of the device's L2 cache. `cpu` computes the
  // expected bytes.
  ShapeBench(const Content& content, const Place& place, size_t l2_bytes,
             Backend& cpu, std::vector<RowSpec> rows);

  // Checks and measures every row. Returns a JSON object for each; "checked"
  // reports wrong bytes, which are counted.
  nlohmann::json Run(int rounds);
  // Only checks. Returns a line for each fault.
  std::vector<std::string> FindFaults();
  int wrong() const { return wrong_; }

 private:
  struct Row {
    RowSpec spec;
    Plan plan;
    size_t read;
    size_t written;
    std::vector<Memory> codes;  // inputs of decoding rows
    std::vector<std::unique_ptr<DeviceJob>> jobs;
    std::string checked;
    Timed* timed;
  };
  enum class How { kMemcpy, kPersistent, kPlain };
  using Key = std::tuple<How, size_t, size_t>;

  void AddRow(RowSpec spec);
  size_t Rounded(size_t bytes) const;
  std::vector<Key> Ceilings(const Row& row, Ceiling ceiling) const;
  void Allocate();
  void Prepare(Row* row);
  void AddCeiling(const Key& key);
  double Best(const Row& row, Ceiling ceiling) const;
  nlohmann::json Report(const Row& row) const;

  const Content& content_;
  const Place place_;
  Backend& cpu_;
  const int buffers_;  // number of buffers over which launches rotate
  int wrong_ = 0;
  std::vector<Memory> in_;
  std::vector<Memory> out_;
  Memory sink_;
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<std::unique_ptr<Timed>> timed_;
  std::map<Key, const Timed*> ceilings_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_SHAPE_H_
