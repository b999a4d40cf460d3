#include "tests/bench/matrix/results.h"

#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "fmt/format.h"

namespace quantd::bench {
namespace {

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

std::vector<Cell> SelectCells(DType dtype,
                              const std::vector<std::string>& globs,
                              int every) {
  std::vector<Cell> cells = MatrixOf(dtype);
  std::erase_if(cells, [&, n = 0](const Cell& cell) mutable {
    const bool chosen =
        globs.empty() ||
        std::any_of(globs.begin(), globs.end(), [&](const std::string& g) {
          return fnmatch(g.c_str(), cell.row.name.c_str(), 0) == 0;
        });
    return !chosen || n++ % every != 0;
  });
  return cells;
}

void MatrixResults::Add(const Cell& cell, DType dtype, double ratio, bool wrong,
                        nlohmann::json row) {
  cells_.push_back({cell.line, ColumnOf(dtype, cell.usage), ratio, wrong});
  rows_.push_back(std::move(row));
}

bool MatrixResults::Write(const std::string& path, const std::string& shape,
                          nlohmann::json made) const {
  const HeatMap map(cells_);
  made["least"] = map.least();
  made["median"] = map.median();
  const std::string title = fmt::format(
      "{}, {}, percent of the ceiling: {}, {}",
      made["device"].get<std::string>(), shape, made["date"].get<std::string>(),
      made["commit"].get<std::string>());
  // Writes a line for each cell, since people read the file, too.
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
         WriteFile(path + ".txt", title + "\n\n" + map.Text());
}

}  // namespace quantd::bench
