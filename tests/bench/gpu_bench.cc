// CUDA kernels beside what the memory can do: time by device events, median
// over rounds in which every kernel and both ceilings take turns, buffers
// rotated so that no round finds its data in the cache. TB/s count each input
// byte read once and each output byte written once.
//
//   gpu_bench [JSON file [commit [date]]]
//
// Never touches clocks or modes of the GPU. Exits with 77 where there is none.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/plan.h"
#include "kernels/sign_mask.h"
#include "nlohmann/json.hpp"
#include "tests/bench/gpu_ceiling.h"

namespace {

using quantd::DType;
using quantd::TensorKind;
using quantd::Usage;
using quantd::cuda::Queue;

constexpr int kRounds = 21;  // and one to warm up
constexpr double kRoundSeconds = 1e-3;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

std::byte* Allocate(size_t bytes) {
  void* p = nullptr;
  Check(cudaMalloc(&p, bytes), "cudaMalloc");
  return static_cast<std::byte*>(p);
}

// Bell-shaped values, a piece of them repeated.
void Fill(std::byte* p, size_t bytes, DType dtype) {
  static const std::vector<float> normals = [] {
    std::vector<float> v(size_t{1} << 22);
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (float& x : v) x = normal(rng);
    return v;
  }();
  std::vector<std::byte> piece(normals.size() * SizeOf(dtype));
  for (size_t i = 0; i < normals.size(); ++i) {
    // The upper half of an fp32 is a bf16.
    const size_t skip = sizeof(float) - SizeOf(dtype);
    std::memcpy(&piece[i * SizeOf(dtype)],
                reinterpret_cast<const char*>(&normals[i]) + skip,
                SizeOf(dtype));
  }
  for (size_t at = 0; at < bytes; at += piece.size()) {
    Check(cudaMemcpy(p + at, piece.data(), std::min(piece.size(), bytes - at),
                     cudaMemcpyHostToDevice),
          "fill");
  }
}

enum class Ceiling { kCopy, kRead };

// One measured thing. `launch(i)` works on buffer set i.
struct Row {
  std::string name;
  DType dtype;
  double bytes;
  Ceiling ceiling;
  std::function<cudaError_t(int)> launch;
  int repeats = 1;
  std::vector<double> us = {};

  double median() const {
    std::vector<double> v = us;
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2];
  }
  double tbps() const { return bytes / median() * 1e-6; }
};

class ShapeBench {
 public:
  ShapeBench(int64_t rows, int64_t cols, DType dtype,
             const cudaDeviceProp& device, cudaStream_t stream)
      : rows_(rows),
        cols_(cols),
        dtype_(dtype),
        queue_{stream, device.multiProcessorCount},
        in_bytes_(rows * cols * SizeOf(dtype)) {
    // Both usages and their scales take 1.25 bytes an element at most.
    out_bytes_ = std::max<size_t>(in_bytes_, rows * cols * 5 / 4 + (1 << 20));
    sets_ = static_cast<int>(
        std::max<size_t>(2, 3 * device.l2CacheSize / in_bytes_ + 1));
    for (int i = 0; i < sets_; ++i) {
      in_.push_back(Allocate(in_bytes_));
      out_.push_back(Allocate(out_bytes_));
      codes_.push_back(Allocate(out_bytes_));
      Fill(in_.back(), in_bytes_, dtype);
    }
    amax_ = reinterpret_cast<float*>(Allocate(sizeof(float)));
    found_ = reinterpret_cast<quantd::cuda::Found*>(Allocate(sizeof(*found_)));
    Check(cudaMemset(found_, 0, sizeof(*found_)), "clear");
    const float amax = 5.0f;
    Check(cudaMemcpy(amax_, &amax, sizeof(amax), cudaMemcpyHostToDevice),
          "amax");
    const std::vector<float> matrix =
        quantd::RhtMatrix(quantd::kDefaultSignMask, 16);
    std::vector<float> signs;
    for (int i = 0; i < 16; ++i) signs.push_back(matrix[i * 16]);
    signs_ = reinterpret_cast<float*>(Allocate(64));
    Check(cudaMemcpy(signs_, signs.data(), 64, cudaMemcpyHostToDevice),
          "signs");
  }

  ~ShapeBench() {
    for (int i = 0; i < sets_; ++i) {
      Check(cudaFree(in_[i]), "cudaFree");
      Check(cudaFree(out_[i]), "cudaFree");
      Check(cudaFree(codes_[i]), "cudaFree");
    }
    Check(cudaFree(amax_), "cudaFree");
    Check(cudaFree(found_), "cudaFree");
    Check(cudaFree(signs_), "cudaFree");
  }

  // Adds this shape's rows to the table.
  void Run(nlohmann::json* table) {
    Collect();
    for (int round = -1; round < kRounds; ++round) {
      for (Row& row : list_) Measure(&row, round < 0);
    }
    const double copy = list_[0].tbps();
    const double read = list_[1].tbps();
    for (const Row& row : list_) {
      const double ceiling = row.ceiling == Ceiling::kCopy ? copy : read;
      const std::string shape =
          std::to_string(rows_) + "x" + std::to_string(cols_);
      std::printf("%-22s %-12s %-5s %10.2f %7.3f %6.3f\n", row.name.c_str(),
                  shape.c_str(), std::string(Name(row.dtype)).c_str(),
                  row.median(), row.tbps(), row.tbps() / ceiling);
      table->push_back(
          {{"name", row.name},
           {"shape", shape},
           {"dtype", std::string(Name(row.dtype))},
           {"us", row.median()},
           {"tbps", row.tbps()},
           {"ceiling", row.ceiling == Ceiling::kCopy ? "copy" : "read"},
           {"ceiling_tbps", ceiling},
           {"ratio", row.tbps() / ceiling}});
    }
  }

 private:
  void Measure(Row* row, bool warm_up) {
    static cudaEvent_t start, stop;
    if (start == nullptr) {
      Check(cudaEventCreate(&start), "event");
      Check(cudaEventCreate(&stop), "event");
    }
    // A whole turn through the buffers at least.
    const int repeats = std::max(row->repeats, sets_);
    Check(cudaEventRecord(start, queue_.stream), "event");
    for (int i = 0; i < repeats; ++i) {
      Check(row->launch(i % sets_), row->name.c_str());
    }
    Check(cudaEventRecord(stop, queue_.stream), "event");
    Check(cudaEventSynchronize(stop), row->name.c_str());
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, start, stop), "event");
    if (warm_up) {
      row->repeats =
          std::max(1, static_cast<int>(kRoundSeconds * 1e3 * repeats / ms));
    } else {
      row->us.push_back(ms * 1e3 / repeats);
    }
  }

  quantd::cuda::Matrix Input(int i) const {
    return {in_[i], dtype_, rows_, cols_};
  }

  quantd::cuda::Nvfp4Copy Copy(const quantd::Plan& plan, std::byte* base,
                               TensorKind data, TensorKind scale,
                               bool rht) const {
    const quantd::TensorSpec* d = plan.output(data);
    if (d == nullptr) return {};
    const quantd::TensorSpec* s = plan.output(scale);
    return {base + d->offset,       base + s->offset, amax_,
            rht ? signs_ : nullptr, d->shape[1],      s->shape[1]};
  }

  static double CodeBytes(const quantd::Plan& plan) {
    double bytes = 0;
    for (const auto& spec : plan.outputs()) bytes += spec.size;
    return bytes;
  }

  void AddQuantize(std::string name, Usage usage, bool row_rht, bool col_rht) {
    quantd::QuantizeOptions o;
    o.format = quantd::Format::kNvfp4;
    o.usage = usage;
    const quantd::Plan plan =
        *quantd::MakeQuantizePlan({dtype_, {rows_, cols_}, -1}, o);
    const auto launch = [=, this](int i) {
      quantd::cuda::QuantizeArgs a = {};
      a.x = Input(i);
      a.row = Copy(plan, codes_[i], TensorKind::kRowwiseData,
                   TensorKind::kRowwiseScale, row_rht);
      a.col = Copy(plan, codes_[i], TensorKind::kColumnwiseData,
                   TensorKind::kColumnwiseScale, col_rht);
      a.found = found_;
      return LaunchQuantize(a, queue_);
    };
    list_.push_back({std::move(name), dtype_, in_bytes_ + CodeBytes(plan),
                     Ceiling::kCopy, launch});
  }

  void AddAmax(std::string name, bool row_rht, bool col_rht) {
    const auto launch = [=, this](int i) {
      return LaunchAmax({Input(i), row_rht ? signs_ : nullptr,
                         col_rht ? signs_ : nullptr, found_},
                        queue_);
    };
    list_.push_back(
        {std::move(name), dtype_, 1.0 * in_bytes_, Ceiling::kRead, launch});
  }

  // Decodes what the last quantization of that usage left behind.
  void AddDequantize(std::string name, Usage usage, bool rht) {
    quantd::DequantizeOptions o;
    o.format = quantd::Format::kNvfp4;
    o.usage = usage;
    o.output = dtype_;
    const quantd::Plan plan =
        *quantd::MakeDequantizePlan({dtype_, {rows_, cols_}, -1}, o);
    const auto launch = [=, this](int i) {
      quantd::cuda::DequantizeArgs a = {};
      const quantd::TensorSpec& data = plan.inputs()[0];
      const quantd::TensorSpec& scale = plan.inputs()[1];
      a.data = codes_[i] + data.offset;
      a.scale = codes_[i] + scale.offset;
      a.amax = amax_;
      a.signs = rht ? signs_ : nullptr;
      a.data_stride = data.shape[1];
      a.scale_stride = scale.shape[1];
      a.columnwise = usage == Usage::kColumnwise;
      a.out = out_[i];
      a.dtype = dtype_;
      a.rows = rows_;
      a.cols = cols_;
      return LaunchDequantize(a, queue_);
    };
    list_.push_back({std::move(name), dtype_,
                     1.0 * plan.input_bytes() + plan.output_bytes(),
                     Ceiling::kCopy, launch});
  }

  void Collect() {
    list_.push_back(
        {"copy", dtype_, 2.0 * in_bytes_, Ceiling::kCopy, [this](int i) {
           return cudaMemcpyAsync(out_[i], in_[i], in_bytes_,
                                  cudaMemcpyDeviceToDevice, queue_.stream);
         }});
    list_.push_back(
        {"read", dtype_, 1.0 * in_bytes_, Ceiling::kRead, [this](int i) {
           return quantd::LaunchRead(in_[i], in_bytes_,
                                     reinterpret_cast<uint32_t*>(out_[i]),
                                     queue_.multiprocessors, queue_.stream);
         }});
    AddAmax("amax", false, false);
    AddAmax("amax_row_rht", true, false);
    AddAmax("amax_col_rht", false, true);
    AddAmax("amax_both_rht", true, true);
    AddQuantize("quantize_row", Usage::kRowwise, false, false);
    AddDequantize("dequantize_row", Usage::kRowwise, false);
    AddQuantize("quantize_row_rht", Usage::kRowwise, true, false);
    AddDequantize("dequantize_row_rht", Usage::kRowwise, true);
    AddQuantize("quantize_col", Usage::kColumnwise, false, false);
    AddDequantize("dequantize_col", Usage::kColumnwise, false);
    AddQuantize("quantize_col_rht", Usage::kColumnwise, false, true);
    AddDequantize("dequantize_col_rht", Usage::kColumnwise, true);
    AddQuantize("quantize_both", Usage::kBoth, false, false);
    AddQuantize("quantize_both_col_rht", Usage::kBoth, false, true);
    list_.push_back(
        {"apply_rht", dtype_, 2.0 * in_bytes_, Ceiling::kCopy, [this](int i) {
           return LaunchApplyRht(
               {Input(i), out_[i], dtype_, signs_, 16, false, found_}, queue_);
         }});
  }

  const int64_t rows_;
  const int64_t cols_;
  const DType dtype_;
  const Queue queue_;
  const size_t in_bytes_;
  size_t out_bytes_;
  int sets_;
  std::vector<std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<std::byte*> codes_;
  float* amax_;
  float* signs_;
  quantd::cuda::Found* found_;
  std::vector<Row> list_;
};

}  // namespace

int main(int argc, char** argv) {
  if (const std::string reason = quantd::CudaUnavailableReason();
      !reason.empty()) {
    std::printf("SKIPPED: %s\n", reason.c_str());
    return 77;
  }
  cudaDeviceProp device;
  int driver = 0;
  int runtime = 0;
  Check(cudaGetDeviceProperties(&device, 0), "properties");
  Check(cudaDriverGetVersion(&driver), "driver");
  Check(cudaRuntimeGetVersion(&runtime), "runtime");
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");

  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-22s %-12s %-5s %10s %7s %6s\n", "kernel", "shape", "dtype",
              "us", "TB/s", "ratio");
  const int64_t shapes[][2] = {{2048, 4096}, {8192, 8192}, {16384, 16384}};
  for (const auto& shape : shapes) {
    ShapeBench(shape[0], shape[1], DType::kBF16, device, stream).Run(&rows);
  }
  ShapeBench(8192, 8192, DType::kF32, device, stream).Run(&rows);

  if (argc > 1) {
    const nlohmann::json json = {
        {"benchmark", "gpu_bench"},
        {"device", device.name},
        {"multiprocessors", device.multiProcessorCount},
        {"l2_bytes", device.l2CacheSize},
        {"cuda_driver", driver},
        {"cuda_runtime", runtime},
        {"commit", argc > 2 ? argv[2] : ""},
        {"date", argc > 3 ? argv[3] : ""},
        {"rounds", kRounds},
        {"rows", rows}};
    std::ofstream(argv[1]) << json.dump(1) << "\n";
  }
  return 0;
}
