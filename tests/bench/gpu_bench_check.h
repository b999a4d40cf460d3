// Whether what is measured computes what it should: bytes beside those of the
// CPU backend.
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

// A tensor of normally distributed values that repeats itself: every period of
// rows is the same, so that a small tensor's codes say what a large one's are.
// Rows are a multiple of 2048 or of a period, columns of 128.
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
// `most`: rows of a period at most.
Content MakeContent(DType dtype, int64_t rows, int64_t cols,
                    int64_t most = 2048);

struct Verdict {
  bool passed;
  std::string how;  // what was compared, or what differs
};

// Runs both jobs of `row`, which have the same input in memory of their own:
// the first whole, over poison; the second over another poison, and once more
// with the part of it that is measured. Compares the first with the CPU: all of
// a tensor of one period, else its first and last rows as far as they are
// those of a small one, without sums over all; and the second with the first.
Verdict CheckRow(const RowSpec& row, const Content& content, Backend& cpu,
                 cudaStream_t stream, DeviceJob* first, DeviceJob* second);

// The part of a row's job that is measured.
cuda::Part PartOf(const RowSpec& row);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_CHECK_H_
