// What a matrix of measurements has found so far, and its files.
#ifndef QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_
#define QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/matrix/cells.h"
#include "tests/bench/matrix/heat_map.h"

namespace quantd::bench {

// Every `every`th cell of an input type among those whose name one of the globs
// matches (all without globs).
std::vector<Cell> SelectCells(DType dtype,
                              const std::vector<std::string>& globs, int every);

class MatrixResults {
 public:
  // `row`: what is told of the cell beside its map. `wrong`: its bytes are.
  void Add(const Cell& cell, DType dtype, double ratio, bool wrong,
           nlohmann::json row);

  std::string Text() const { return HeatMap(cells_).Text(); }
  // Writes `path`.json, .txt and .svg; `made` says on what and when, `shape` is
  // that of the tensors. Returns false where that fails.
  bool Write(const std::string& path, const std::string& shape,
             nlohmann::json made) const;

 private:
  nlohmann::json rows_ = nlohmann::json::array();
  std::vector<HeatCell> cells_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_RESULTS_H_
