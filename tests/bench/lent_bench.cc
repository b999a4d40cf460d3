// Measures jobs on types of the caller's memory, and copies by the copy
// engines. All alternate in one run. Results are medians.
//
//   lent_bench [RESULTS.json COMMIT DATE]
//
// Jobs quantize bf16 to rowwise NVFP4 with RHT and a given amax. The ceiling
// for host memory is a copy of the input to the device and one of the outputs
// back at the same time, on page-locked memory. The ceiling for device memory
// is the kernels' time. Exits with 77 without a GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/devices.h"
#include "nlohmann/json.hpp"
#include "tests/bench/quantile.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int64_t kColumns = 2048;

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename Work>
double Microseconds(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start)
      .count();
}

enum class Kind { kPageable, kPageLocked, kDevice };
constexpr const char* kNames[] = {"pageable", "page-locked", "device"};

// Memory of one type. Every type is filled with the same values.
class Memory {
 public:
  Memory(Kind kind, size_t bytes) : kind_(kind) {
    if (kind == Kind::kDevice) {
      Check(cudaMalloc(&p_, bytes));
    } else if (kind == Kind::kPageLocked) {
      Check(cudaMallocHost(&p_, bytes));
    } else {
      p_ = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    }
    std::vector<uint16_t> values(bytes / 2 + 1);
    uint32_t seed = 1;
    for (uint16_t& v : values) {
      seed = seed * 1664525 + 1013904223;
      v = static_cast<uint16_t>(0x3f80 + (seed >> 8 & 0xff) +
                                (seed >> 31 << 15));
    }
    Check(cudaMemcpy(p_, values.data(), bytes, cudaMemcpyDefault));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (kind_ == Kind::kDevice) {
      cudaFree(p_);
    } else if (kind_ == Kind::kPageLocked) {
      cudaFreeHost(p_);
    } else {
      std::free(p_);
    }
  }
  absl::Span<std::byte> span(size_t at, size_t size) const {
    return {static_cast<std::byte*>(p_) + at, size};
  }
  void* data() const { return p_; }

 private:
  const Kind kind_;
  void* p_ = nullptr;
};

// Copies the plan's input and outputs by the copy engines alone.
class Copies {
 public:
  Copies(size_t in, size_t out)
      : in_(in),
        out_(out),
        host_in_(Kind::kPageLocked, in),
        host_out_(Kind::kPageLocked, out),
        device_in_(Kind::kDevice, in),
        device_out_(Kind::kDevice, out) {
    for (cudaStream_t& s : streams_) {
      Check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
  }
  ~Copies() {
    for (cudaStream_t s : streams_) cudaStreamDestroy(s);
  }
  void Run() const {
    Check(cudaMemcpyAsync(device_in_.data(), host_in_.data(), in_,
                          cudaMemcpyHostToDevice, streams_[0]));
    Check(cudaMemcpyAsync(host_out_.data(), device_out_.data(), out_,
                          cudaMemcpyDeviceToHost, streams_[1]));
    for (cudaStream_t s : streams_) Check(cudaStreamSynchronize(s));
  }

 private:
  const size_t in_;
  const size_t out_;
  const Memory host_in_, host_out_, device_in_, device_out_;
  cudaStream_t streams_[2] = {};
};

class Case {
 public:
  Case(Backend& backend, std::shared_ptr<const Plan> plan, Kind kind)
      : backend_(backend),
        plan_(std::move(plan)),
        in_(kind, plan_->input_bytes()),
        out_(kind, plan_->output_bytes()) {}

  void Run() {
    LentMemory lent;
    for (const TensorSpec& t : plan_->inputs()) {
      lent.inputs.push_back(in_.span(t.offset, t.size));
    }
    for (const TensorSpec& t : plan_->outputs()) {
      lent.outputs.push_back(out_.span(t.offset, t.size));
    }
    double kernels = 0;
    us.push_back(Microseconds([&] {
      auto job = backend_.Begin(plan_, std::move(lent));
      Check(job.status());
      const auto report = (*job)->Run();
      Check(report.status());
      kernels = static_cast<double>(report->times.compute_ns) / 1e3;
    }));
    kernel_us.push_back(kernels);
  }

  std::vector<double> us;
  std::vector<double> kernel_us;

 private:
  Backend& backend_;
  const std::shared_ptr<const Plan> plan_;
  const Memory in_, out_;
};

void Measure(Backend& backend, size_t bytes, Json* rows) {
  const int64_t columns =
      std::min<int64_t>(kColumns, static_cast<int64_t>(bytes) / 64);
  const TensorDesc tensor = {
      DType::kBF16, {static_cast<int64_t>(bytes) / 2 / columns, columns}};
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.rht.rowwise = true;
  o.rowwise_amax = {16.0f};
  auto made = MakeQuantizePlan(tensor, o);
  Check(made.status());
  const auto plan = std::make_shared<const Plan>(*std::move(made));
  const Copies bare(plan->input_bytes(), plan->output_bytes());
  std::vector<double> bare_us;
  std::vector<std::unique_ptr<Case>> cases;
  for (const Kind kind : {Kind::kPageable, Kind::kPageLocked, Kind::kDevice}) {
    cases.push_back(std::make_unique<Case>(backend, plan, kind));
  }
  const int rounds = bytes >= size_t{64} << 20 ? 11 : 101;
  for (int i = 0; i < rounds; ++i) {
    bare_us.push_back(Microseconds([&] { bare.Run(); }));
    for (const auto& c : cases) c->Run();
  }
  for (size_t k = 0; k < cases.size(); ++k) {
    const double us = Median(cases[k]->us);
    const bool device = static_cast<Kind>(k) == Kind::kDevice;
    const double ceiling = Median(device ? cases[k]->kernel_us : bare_us);
    std::printf(
        "%-12s %9zu KiB %10.1f us %8.2f GB/s %10.1f us %s "
        "%6.3f, %7.1f us above it\n",
        kNames[k], bytes >> 10, us, static_cast<double>(bytes) / us / 1e3,
        ceiling, device ? "kernels" : "copies ", ceiling / us, us - ceiling);
    rows->push_back({{"memory", kNames[k]},
                     {"bytes", bytes},
                     {"amax", "given"},
                     {"us", us},
                     {"gbps", static_cast<double>(bytes) / us / 1e3},
                     {"ceiling", device ? "kernels" : "copies"},
                     {"ceiling_us", ceiling},
                     {"ratio", ceiling / us}});
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (const std::string reason = CudaUnavailableReason(); !reason.empty()) {
    std::printf("SKIPPED: %s\n", reason.c_str());
    return 77;
  }
  auto backend = OpenBackend("cuda:0", {.memory_limit = size_t{4} << 30});
  Check(backend.status());
  Json rows = Json::array();
  for (const size_t kib : {4, 1 << 10, 4 << 10, 64 << 10, 256 << 10}) {
    Measure(**backend, kib << 10, &rows);
  }
  if (argc == 4) {
    const Json json = {{"benchmark", "lent_bench"},
                       {"device", (*backend)->info().description},
                       {"commit", argv[2]},
                       {"date", argv[3]},
                       {"rows", rows}};
    std::ofstream out(argv[1]);
    out << json.dump(1) << "\n";
    if (!out.flush()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) { return quantd::bench::Main(argc, argv); }
