#include "tests/bench/matrix/heat_map.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace quantd::bench {
namespace {

constexpr double kWanted = 0.5;

void AddOnce(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) {
    names->push_back(name);
  }
}

}  // namespace

HeatMap::HeatMap(std::vector<HeatCell> cells) : cells_(std::move(cells)) {
  for (const HeatCell& cell : cells_) {
    AddOnce(cell.line, &lines_);
    AddOnce(cell.column, &columns_);
  }
}

const HeatCell* HeatMap::Find(const std::string& line,
                              const std::string& column) const {
  for (const HeatCell& cell : cells_) {
    if (cell.line == line && cell.column == column) return &cell;
  }
  return nullptr;
}

double HeatMap::least() const {
  double least = cells_.empty() ? 0 : cells_.front().ratio;
  for (const HeatCell& cell : cells_) least = std::min(least, cell.ratio);
  return least;
}

double HeatMap::median() const {
  if (cells_.empty()) return 0;
  std::vector<double> ratios;
  for (const HeatCell& cell : cells_) ratios.push_back(cell.ratio);
  const auto middle = ratios.begin() + ratios.size() / 2;
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

std::string HeatMap::Text() const {
  std::string text = fmt::format("{:<44}", "percent of the ceiling");
  for (const std::string& column : columns_) {
    text += fmt::format(" {:>9}", column);
  }
  text += "\n";
  for (const std::string& line : lines_) {
    std::string row = fmt::format("{:<44}", line);
    for (const std::string& column : columns_) {
      const HeatCell* cell = Find(line, column);
      row += cell == nullptr ? fmt::format(" {:>9}", "")
                             : fmt::format(" {:>8.0f}{}", cell->ratio * 100,
                                           cell->wrong ? "!" : " ");
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  std::vector<HeatCell> low;
  for (const HeatCell& cell : cells_) {
    if (cell.ratio < kWanted) low.push_back(cell);
  }
  std::sort(low.begin(), low.end(), [](const HeatCell& a, const HeatCell& b) {
    return a.ratio < b.ratio;
  });
  text += fmt::format("\n{} cells: least {:.3f}, median {:.3f}, {} below {}\n",
                      cells_.size(), least(), median(), low.size(), kWanted);
  for (const HeatCell& cell : low) {
    text += fmt::format("{:.3f} {}, {}\n", cell.ratio, cell.line, cell.column);
  }
  return text;
}

}  // namespace quantd::bench
