// The results of a matrix of measurements so far, and their files.
#ifndef QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_
#define QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/matrix/cells.h"
#include "tests/bench/matrix/heat_map.h"

namespace quantd::bench {

// Returns every `every`th of an input type's cells whose names match one of the
// globs, or of all its cells if there are no globs.
std::vector<Cell> SelectCells(DType dtype,
                              const std::vector<std::string>& globs, int every);

class MatrixResults {
 public:
  // Adds a cell. `row` holds further results of it; `wrong` means that its
  // bytes are wrong.
  void Add(const Cell& cell, DType dtype, double ratio, bool wrong,
           nlohmann::json row);

  std::string Text() const { return HeatMap(cells_).Text(); }
  // Writes `path`.json and .txt. `made` describes machine and time,
  // `shape` the tensors. Returns false on failure.
  bool Write(const std::string& path, const std::string& shape,
             nlohmann::json made) const;

 private:
  nlohmann::json rows_ = nlohmann::json::array();
  std::vector<HeatCell> cells_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_
