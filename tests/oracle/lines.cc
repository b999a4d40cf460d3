#include "tests/oracle/lines.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/oracle/codec.h"

namespace quantd::oracle {

int64_t RowsIn(int64_t rows, const std::vector<int64_t>& splits) {
  if (splits.empty()) return rows;
  return std::accumulate(splits.begin(), splits.end(), int64_t{0});
}

std::vector<Matrix> Groups(const std::vector<float>& x, int64_t rows,
                           int64_t cols, const std::vector<int64_t>& splits) {
  if (splits.empty()) return {{0, 0, rows, cols, x}};
  std::vector<Matrix> groups;
  int64_t row = 0;
  for (int64_t count : splits) {
    const auto start = x.begin() + row * cols;
    const auto group = static_cast<int64_t>(groups.size());
    groups.push_back({group, row, count, cols, {start, start + count * cols}});
    row += count;
  }
  return groups;
}

std::vector<std::vector<float>> MakeLines(const Matrix& m, bool columnwise,
                                          int64_t padded, int dimension,
                                          const Mask& mask) {
  std::vector<std::vector<float>> lines(columnwise ? m.cols : m.rows,
                                        std::vector<float>(padded));
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      (columnwise ? lines[c][r] : lines[r][c]) = m.x[r * m.cols + c];
    }
  }
  if (dimension == 0) return lines;
  for (auto& line : lines) {
    for (int64_t at = 0; at < padded; at += dimension) {
      Rotate(&line[at], mask, dimension);
    }
    for (float& v : line) v = RoundTo(Element::kBF16, v);
  }
  return lines;
}

size_t AmaxIndex(const Matrix& m, bool columnwise, bool own, int64_t line) {
  if (!own) return m.group;
  return columnwise ? m.group * m.cols + line : m.first_row + line;
}

bool AnyNaN(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); });
}

bool AnyInf(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isinf(v); });
}

}  // namespace quantd::oracle
