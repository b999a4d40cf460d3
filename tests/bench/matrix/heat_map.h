// What a matrix of measurements looks like: a map of text and of colours, the
// least, the median, and who is below half of the ceiling.
#ifndef QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_
#define QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_

#include <string>
#include <vector>

namespace quantd::bench {

struct HeatCell {
  std::string line;
  std::string column;
  double ratio;
  bool wrong = false;  // its bytes
};

class HeatMap {
 public:
  // Lines and columns stand in the order of their first cells.
  explicit HeatMap(std::vector<HeatCell> cells);

  double least() const;
  double median() const;
  // Percent of the ceiling, then least, median and what is below half.
  std::string Text() const;
  std::string Svg(const std::string& title) const;

 private:
  const HeatCell* Find(const std::string& line,
                       const std::string& column) const;

  std::vector<HeatCell> cells_;
  std::vector<std::string> lines_;
  std::vector<std::string> columns_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_
