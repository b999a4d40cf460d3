// Checks of the measured jobs: their bytes must equal those of the CPU backend.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_CHECK_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_CHECK_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/backend.h"
#include "tests/bench/gpu_bench_job.h"
#include "tests/bench/gpu_bench_rows.h"

namespace quantd::bench {

// A tensor of normally distributed values that repeats every `period` rows, so
// that a small tensor's codes determine a large one's. Rows are a multiple of
// 2048 or of the period, columns of 128.
struct Content {
  DType dtype;
  int64_t rows;
  int64_t cols;
  int64_t period;  // a power of two, 128 .. 2048
  std::vector<std::byte> rows_of_period;

  size_t bytes() const {
    return static_cast<size_t>(rows * cols) * SizeOf(dtype);
  }
  std::string shape() const {
    return std::to_string(rows) + "x" + std::to_string(cols);
  }
};
// Makes a tensor whose period has at most `most` rows.
Content MakeContent(DType dtype, int64_t rows, int64_t cols,
                    int64_t most = 2048);

struct Verdict {
  bool passed;
  std::string how;  // which bytes were compared, or which differ
};

// Runs two jobs of `row` with equal inputs in separate memory. The first runs
// whole, over outputs filled with one value. The second runs over another
// value, and then its measured part runs again. Compares the first with the
// CPU, and the second with the first. A tensor of one period is compared whole.
// A larger tensor is compared in its first and last rows, without sums over all
// rows.
Verdict CheckRow(const RowSpec& row, const Content& content, Backend& cpu,
                 cudaStream_t stream, DeviceJob* first, DeviceJob* second);

// Returns the part of a row's job that is measured.
cuda::Part PartOf(const RowSpec& row);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_CHECK_H_
