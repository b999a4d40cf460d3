// The matrix has a cell for every option that the support table allows, so that
// each is measured.
#ifndef QUANTD_TESTS_BENCH_MATRIX_CELLS_H_
#define QUANTD_TESTS_BENCH_MATRIX_CELLS_H_

#include <string>
#include <vector>

#include "tests/bench/gpu_bench_rows.h"

namespace quantd::bench {

struct Cell {
  RowSpec row;       // its name joins line and usage
  std::string line;  // of the heat map: "nvfp4 rht 32 stochastic"
  Usage usage;
};

// Cells of one input type, in the order of the format table:
//   - every rotation, rounding, 4over6, row scaling and profile of every format
//     and usage, with linear scales and a given amax;
//   - every other option of a format alone, rowwise and columnwise;
//   - every pair of these other options, alternating between usages;
//   - decoding of every format and usage, including rotated data.
std::vector<Cell> MatrixOf(DType dtype);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_CELLS_H_
