// Measures the matrix (tests/bench/matrix/cells.h) and writes its map.
#ifndef QUANTD_TESTS_BENCH_MATRIX_MATRIX_BENCH_H_
#define QUANTD_TESTS_BENCH_MATRIX_MATRIX_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/gpu_bench_job.h"
#include "tests/bench/matrix/results.h"

namespace quantd::bench {

class MatrixBench {
 public:
  struct What {
    int64_t rows;
    int64_t cols;
    int rounds;
    int every;                       // measures every Nth cell
    std::vector<std::string> globs;  // select cells by name; empty: all
  };
  MatrixBench(What what, size_t l2_bytes, Backend& cpu);

  // Checks every cell of an input type at 1024 x 2048, then measures it and
  // checks its first and last rows.
  void Measure(DType dtype, const Place& place);

  int wrong() const { return wrong_; }
  std::string Text() const { return results_.Text(); }
  // Writes the results so far as `path`.json and .txt. `made` describes
  // machine and time. Returns false on failure.
  bool Write(const std::string& path, nlohmann::json made) const;

 private:
  const What what_;
  const size_t l2_bytes_;
  Backend& cpu_;
  int wrong_ = 0;
  MatrixResults results_;
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_MATRIX_MATRIX_BENCH_H_
