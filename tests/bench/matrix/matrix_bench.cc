#include "tests/bench/matrix/matrix_bench.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "tests/bench/gpu_bench_check.h"
#include "tests/bench/gpu_bench_shape.h"
#include "tests/bench/matrix/cells.h"

namespace quantd::bench {
namespace {

// The shape at which every byte is compared, and rows of a period where only
// some are: four squares of 128, as many as a line of their scales is padded
// to.
constexpr int64_t kWholeRows = 1024;
constexpr int64_t kWholeCols = 2048;
constexpr int64_t kPeriod = 512;

std::string ColumnOf(DType dtype, Usage usage) {
  const char* copies = usage == Usage::kRowwise      ? "row"
                       : usage == Usage::kColumnwise ? "col"
                                                     : "both";
  return fmt::format("{} {}", Name(dtype), copies);
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  return static_cast<bool>(out.flush());
}

}  // namespace

MatrixBench::MatrixBench(What what, size_t l2_bytes, Backend& cpu)
    : what_(std::move(what)), l2_bytes_(l2_bytes), cpu_(cpu) {}

void MatrixBench::Measure(DType dtype, const Place& place) {
  std::vector<Cell> cells = MatrixOf(dtype);
  std::erase_if(cells, [&, n = 0](const Cell& cell) mutable {
    const auto& globs = what_.globs;
    const bool chosen =
        globs.empty() ||
        std::any_of(globs.begin(), globs.end(), [&](const std::string& g) {
          return fnmatch(g.c_str(), cell.row.name.c_str(), 0) == 0;
        });
    return !chosen || n++ % what_.every != 0;
  });
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
    cells_.push_back({cells[i].line, ColumnOf(dtype, cells[i].usage),
                      rows[i]["ratio"].get<double>(), wrong});
    rows_.push_back(rows[i]);
  }
  std::fflush(stdout);
}

bool MatrixBench::Write(const std::string& path, nlohmann::json made) const {
  const HeatMap map(cells_);
  made["least"] = map.least();
  made["median"] = map.median();
  made["wrong"] = wrong_;
  const std::string title = fmt::format(
      "{}, {}x{}, percent of the ceiling: {}, {}",
      made["device"].get<std::string>(), what_.rows, what_.cols,
      made["date"].get<std::string>(), made["commit"].get<std::string>());
  // (A line a cell: the whole is read by eyes, too.)
  std::string json = made.dump();
  json.back() = ',';
  json += "\n\"cells\": [";
  const char* separator = "\n";
  for (const nlohmann::json& row : rows_) {
    json += separator + row.dump();
    separator = ",\n";
  }
  json += "\n]}\n";
  return WriteFile(path + ".json", json) &&
         WriteFile(path + ".txt", title + "\n\n" + map.Text()) &&
         WriteFile(path + ".svg", map.Svg(title));
}

}  // namespace quantd::bench
