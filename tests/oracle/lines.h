// The lines of a matrix that a copy stores.
#ifndef QUANTD_TESTS_ORACLE_LINES_H_
#define QUANTD_TESTS_ORACLE_LINES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/oracle/rht.h"

namespace quantd::oracle {

// The rows of a matrix, or of one group of a larger matrix.
struct Matrix {
  int64_t group = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> x;
};
// The sum of the splits; all rows without splits.
int64_t RowsIn(int64_t rows, const std::vector<int64_t>& splits);
// A matrix for each split; without splits, one matrix of all rows.
std::vector<Matrix> Groups(const std::vector<float>& x, int64_t rows,
                           int64_t cols, const std::vector<int64_t>& splits);

// Lines of `padded` positions, which are zero beyond the matrix. If `dimension`
// is not 0, they are rotated block by block and rounded to bf16.
std::vector<std::vector<float>> MakeLines(const Matrix& m, bool columnwise,
                                          int64_t padded, int dimension,
                                          const Mask& mask);

// The index of a line's amax among those of all groups. If `own`, every line
// has an amax, and columnwise those of a group are adjacent; otherwise every
// group has one.
size_t AmaxIndex(const Matrix& m, bool columnwise, bool own, int64_t line);

bool AnyNaN(const std::vector<float>& x);
bool AnyInf(const std::vector<float>& x);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_LINES_H_
