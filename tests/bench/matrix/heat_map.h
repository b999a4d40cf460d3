// Shows a matrix of measurements as a map in text, with the least and the
// median ratio and the cells below half of the ceiling.
#ifndef QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_
#define QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_

#include <string>
#include <vector>

namespace quantd::bench {

struct HeatCell {
  std::string line;
  std::string column;
  double ratio;
  bool wrong = false;  // its bytes are wrong
};

class HeatMap {
 public:
  // Lines and columns appear in the order of their first cells.
  explicit HeatMap(std::vector<HeatCell> cells);

  double least() const;
  double median() const;
  // Returns percent of the ceiling, then the least, the median and the cells
  // below half.
  std::string Text() const;

 private:
  const HeatCell* Find(const std::string& line,
                       const std::string& column) const;

  std::vector<HeatCell> cells_;
  std::vector<std::string> lines_;
  std::vector<std::string> columns_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_HEAT_MAP_H_
