#include "tests/bench/matrix/heat_map.h"

#include <algorithm>
#include <cmath>
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

// Returns a colour: red at 0, yellow between, green at 1.
std::string ColourOf(double ratio) {
  const double x = std::clamp(ratio, 0.0, 1.0);
  const int red = static_cast<int>(std::lround(x < 0.5 ? 225 : 450 * (1 - x)));
  const int green = static_cast<int>(std::lround(x < 0.5 ? 400 * x : 200));
  return fmt::format("rgb({},{},70)", red, green);
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

std::string HeatMap::Svg(const std::string& title) const {
  constexpr int kName = 320;
  constexpr int kWidth = 64;
  constexpr int kHeight = 16;
  constexpr int kHead = 44;
  const int width = kName + kWidth * static_cast<int>(columns_.size()) + 8;
  const int height = kHead + kHeight * static_cast<int>(lines_.size()) + 8;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"monospace\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"4\" y=\"14\">{}</text>\n",
      width, height, title);
  for (size_t c = 0; c < columns_.size(); ++c) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n",
                       kName + kWidth * static_cast<int>(c) + 2, kHead - 6,
                       columns_[c]);
  }
  for (size_t l = 0; l < lines_.size(); ++l) {
    const int y = kHead + kHeight * static_cast<int>(l);
    svg += fmt::format("<text x=\"4\" y=\"{}\">{}</text>\n", y + 12, lines_[l]);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const HeatCell* cell = Find(lines_[l], columns_[c]);
      if (cell == nullptr) continue;
      const int x = kName + kWidth * static_cast<int>(c);
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>"
          "<text x=\"{}\" y=\"{}\">{:.0f}</text>\n",
          x, y, kWidth - 2, kHeight - 1, ColourOf(cell->ratio), x + 20, y + 12,
          cell->ratio * 100);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace quantd::bench
