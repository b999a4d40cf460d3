#include "tests/bench/matrix/matrix_bench.h"

#include <cstdio>
#include <utility>

#include "fmt/format.h"
#include "tests/bench/gpu_bench_check.h"
#include "tests/bench/gpu_bench_shape.h"

namespace quantd::bench {
namespace {

// The shape at which every byte is compared, and the period of the input at
// shapes where only some rows are compared. A period has four square blocks of
// 128 rows, because lines of their scales are padded to four.
constexpr int64_t kWholeRows = 1024;
constexpr int64_t kWholeCols = 2048;
constexpr int64_t kPeriod = 512;

}  // namespace

MatrixBench::MatrixBench(What what, size_t l2_bytes, Backend& cpu)
    : what_(std::move(what)), l2_bytes_(l2_bytes), cpu_(cpu) {}

void MatrixBench::Measure(DType dtype, const Place& place) {
  const std::vector<Cell> cells = SelectCells(dtype, what_.globs, what_.every);
  std::vector<RowSpec> specs;
  for (const Cell& cell : cells) specs.push_back(cell.row);
  if (specs.empty()) return;
  {
    const Content small = MakeContent(dtype, kWholeRows, kWholeCols);
    ShapeBench bench(small, place, l2_bytes_, cpu_, specs);
    for (const std::string& fault : bench.FindFaults()) {
      std::printf("%s %s: %s\n", small.shape().c_str(),
                  std::string(Name(dtype)).c_str(), fault.c_str());
      ++wrong_;
    }
  }
  const Content content = MakeContent(dtype, what_.rows, what_.cols, kPeriod);
  ShapeBench bench(content, place, l2_bytes_, cpu_, std::move(specs));
  const nlohmann::json rows = bench.Run(what_.rounds);
  wrong_ += bench.wrong();
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool wrong =
        rows[i]["checked"].get<std::string>().rfind("cpu", 0) != 0;
    if (wrong) std::printf("%s\n", rows[i].dump().c_str());
    results_.Add(cells[i], dtype, rows[i]["ratio"].get<double>(), wrong,
                 rows[i]);
  }
  std::fflush(stdout);
}

bool MatrixBench::Write(const std::string& path, nlohmann::json made) const {
  made["wrong"] = wrong_;
  return results_.Write(path, fmt::format("{}x{}", what_.rows, what_.cols),
                        std::move(made));
}

}  // namespace quantd::bench
