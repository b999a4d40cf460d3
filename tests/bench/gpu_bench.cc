// Measures CUDA kernels against the memory's rate. In one run on one device,
// rows (tests/bench/gpu_bench_rows.h) alternate with kernels that only read and
// write as many bytes. Results are medians of rounds. TB/s count the input
// once, or twice if the amax is computed first, and every byte of the output
// once.
//
// A row's time is the time of its kernels. The amax and an FP8 tensor's scale
// are given, except in rows that compute them. Launches are replayed from CUDA
// graphs, over buffers that together are three times the L2 cache. Before that,
// outputs are compared with the CPU backend's.
//
// Does not change clocks or modes of the GPU. Exits with 77 without a GPU, and
// with 1 if bytes are wrong.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/device/devices.h"
#include "kernels/plan/support.h"
#include "nlohmann/json.hpp"
#include "tests/bench/gpu_bench_latency.h"
#include "tests/bench/gpu_bench_rows.h"
#include "tests/bench/gpu_bench_shape.h"
#include "tests/bench/matrix/matrix_bench.h"

namespace quantd::bench {
namespace {

using Json = nlohmann::json;

struct Shape {
  int64_t rows;
  int64_t cols;
};

// Parses a shape like "2048x4096". The shape must suit every row of the
// benchmark (gpu_bench_rows.h).
bool Parse(const std::string& text, Shape* shape) {
  long long rows = 0;
  long long cols = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%lldx%lld%c", &rows, &cols, &end) != 2) {
    return false;
  }
  *shape = {rows, cols};
  return rows > 0 && cols > 0 && rows % 2048 == 0 && cols % 128 == 0;
}

void Print(const Json& row) {
  const auto text = [&](const char* key) {
    return row[key].get<std::string>();
  };
  const auto number = [&](const char* key) { return row[key].get<double>(); };
  std::printf("%-29s %-11s %-4s %9.2f %6.3f %-4s %6.3f %6.3f %6.3f",
              text("name").c_str(), text("shape").c_str(),
              text("dtype").c_str(), number("us"), number("tbps"),
              text("ceiling").c_str(), number("ceiling_tbps"), number("ratio"),
              number("mix_tbps"));
  if (row.contains("time_ratio")) {
    std::printf("  %.3f of %s", number("time_ratio"), text("of").c_str());
  }
  const std::string checked = text("checked");
  if (checked.rfind("cpu", 0) != 0) std::printf("  %s", checked.c_str());
  std::printf("\n");
}

struct Options {
  std::string json;
  std::string commit;
  std::string date;
  std::vector<std::string> shapes = {"2048x4096", "2048x28672", "8192x8192",
                                     "16384x16384", "32768x32768"};
  std::vector<std::string> rows;
  int rounds = 21;
  std::string matrix;
  int every = 1;
};

int Run(const Options& options, const std::vector<Shape>& shapes) {
  if (const std::string reason = CudaUnavailableReason(); !reason.empty()) {
    std::printf("SKIPPED: %s\n", reason.c_str());
    return 77;
  }
  absl::StatusOr<std::unique_ptr<cuda::Device>> device =
      cuda::Device::Open(0, 1, size_t{1} << 30);
  absl::StatusOr<std::unique_ptr<Backend>> cpu =
      OpenBackend("cpu", {.memory_limit = size_t{8} << 30});
  if (!device.ok() || !cpu.ok()) {
    std::fprintf(stderr, "%s\n%s\n", device.status().ToString().c_str(),
                 cpu.status().ToString().c_str());
    return 1;
  }
  cudaDeviceProp properties;
  int driver = 0;
  int runtime = 0;
  Check(cudaGetDeviceProperties(&properties, 0), "properties");
  Check(cudaDriverGetVersion(&driver), "driver");
  Check(cudaRuntimeGetVersion(&runtime), "runtime");
  absl::StatusOr<cuda::Device::Lease> slot = (*device)->TakeSlot();
  if (!slot.ok()) {
    std::fprintf(stderr, "%s\n", slot.status().ToString().c_str());
    return 1;
  }
  const cuda::Device::Lease lease = *std::move(slot);

  Json rows = Json::array();
  int wrong = 0;
  std::printf("%-29s %-11s %-4s %9s %6s %11s %6s %6s\n", "row", "shape", "type",
              "us", "TB/s", "ceiling", "ratio", "mix");
  const auto place_of = [&](DType dtype) {
    Place place = {{lease->stream, properties.multiProcessorCount,
                    (*device)->properties().shared_memory, lease->tickets},
                   {},
                   lease->findings};
    for (size_t i = 0; i < std::size(kRhtDimensions); ++i) {
      const int n = kRhtDimensions[i];
      // The rotation tables stay in the device's cache.
      const auto rht = (*device)->GetRht(DefaultSignMask(n), n, dtype, lease);
      if (!rht.ok()) {
        std::fprintf(stderr, "%s\n", rht.status().ToString().c_str());
        std::exit(1);
      }
      place.signs[i] = (*rht)->signs;
    }
    return place;
  };
  const Json made = {{"benchmark", "gpu_bench"},
                     {"device", properties.name},
                     {"multiprocessors", properties.multiProcessorCount},
                     {"l2_bytes", properties.l2CacheSize},
                     {"driver", driver},
                     {"cuda", runtime},
                     {"commit", options.commit},
                     {"date", options.date},
                     {"rounds", options.rounds}};
  if (!options.matrix.empty()) {
    MatrixBench bench({shapes.front().rows, shapes.front().cols, options.rounds,
                       options.every, options.rows},
                      properties.l2CacheSize, **cpu);
    bool written = true;
    for (const DType dtype : kInputTypes) {
      bench.Measure(dtype, place_of(dtype));
      written = written && bench.Write(options.matrix, made);
    }
    std::printf("%s", bench.Text().c_str());
    return written && bench.wrong() == 0 ? 0 : 1;
  }
  const auto measure = [&](const Shape& shape, DType dtype,
                           std::vector<RowSpec> list) {
    if (list.empty()) return;
    const Place place = place_of(dtype);
    const Content content = MakeContent(dtype, shape.rows, shape.cols);
    ShapeBench bench(content, place, properties.l2CacheSize, **cpu,
                     std::move(list));
    for (const Json& row : bench.Run(options.rounds)) {
      Print(row);
      rows.push_back(row);
    }
    std::fflush(stdout);
    wrong += bench.wrong();
  };
  for (const Shape& shape : shapes) {
    measure(shape, DType::kBF16, SelectRows(options.rows));
    if (shape.rows != 8192 || shape.cols != 8192) continue;
    std::vector<RowSpec> list;
    for (RowSpec& row : SelectRows(options.rows)) {
      if (row.f32) list.push_back(std::move(row));
    }
    measure(shape, DType::kF32, std::move(list));
  }
  const Json latency = MeasureLatency(place_of(DType::kBF16),
                                      properties.l2CacheSize, options.rounds);
  std::printf("%s\n", latency.dump().c_str());
  if (!options.json.empty()) {
    Json json = made;
    json["rows"] = rows;
    json["latency"] = latency;
    std::ofstream out(options.json);
    out << json.dump(1) << "\n";
    if (!out.flush()) return 1;
  }
  if (wrong > 0) std::printf("WRONG BYTES in %d rows\n", wrong);
  return wrong > 0 ? 1 : 0;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Times CUDA kernels and plain reads and copies of as many bytes.");
  app.add_option("json", options.json, "file for the results");
  app.add_option("commit", options.commit,
                 "commit of this build, for the results");
  app.add_option("date", options.date, "date, for the results");
  app.add_option("--shapes", options.shapes,
                 "ROWSxCOLUMNS,...: multiples of 2048 and 128")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--rows", options.rows,
                 "names or globs of rows, like nvfp4_*,amax (default: all). "
                 "For a variant, its base row is measured, too")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--rounds", options.rounds, "number of rounds for each median")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--matrix", options.matrix,
                 "measure every cell of the support table instead, at the "
                 "first of --shapes, and write FILE.json and .txt");
  app.add_option("--every", options.every,
                 "measure only every Nth cell of the matrix")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  std::vector<Shape> shapes;
  for (const std::string& text : options.shapes) {
    shapes.emplace_back();
    if (!Parse(text, &shapes.back())) {
      std::fprintf(stderr, "--shapes: cannot measure the shape %s\n",
                   text.c_str());
      return 2;
    }
  }
  return Run(options, shapes);
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) { return quantd::bench::Main(argc, argv); }
