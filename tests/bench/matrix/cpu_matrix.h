// Measures the matrix (tests/bench/matrix/cells.h) on the CPU backend.
#ifndef QUANTD_TESTS_BENCH_MATRIX_CPU_MATRIX_H_
#define QUANTD_TESTS_BENCH_MATRIX_CPU_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/matrix/results.h"

namespace quantd::bench {

struct CpuMatrix {
  int64_t rows;
  int64_t cols;
  int runs;     // medians of so many
  int threads;  // as OpenBackend takes them
  std::string isa;
  int every = 1;                        // one cell in so many
  std::vector<std::string> globs = {};  // of cells' names; none: all
};

// Every cell of every input type beside a memcpy of the input (of a Dequantize:
// of what it decodes to) by as many threads, cells and copies by turns.
// `wrong`: cells whose bytes are others than the baseline's at a shape of a
// few tiles.
MatrixResults MeasureOnCpu(const CpuMatrix& what, int* wrong);

// Prints the cells and shapes that have less than `least` of the speed of 1024
// x 1024, in bytes in and out for a second of CPU time, and returns their
// number. Rows and columns of `what` are not used.
int FindSlowShapes(const CpuMatrix& what, double least);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_CPU_MATRIX_H_
