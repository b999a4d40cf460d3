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
  int runs;     // number of runs for each median
  int threads;  // as OpenBackend takes them
  std::string isa;
  int every = 1;                        // measures every Nth cell
  std::vector<std::string> globs = {};  // select cells by name; empty: all
};

// Measures every cell of every input type, alternating with a memcpy of the
// input, or of the output of a Dequantize, by as many threads. `wrong` counts
// cells whose bytes differ from the baseline's at a shape of a few tiles.
MatrixResults MeasureOnCpu(const CpuMatrix& what, int* wrong);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_CPU_MATRIX_H_
