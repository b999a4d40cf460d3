// The table of plans that gpu_bench measures, each with the memory traffic that
// it is compared with.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quantd/plan.h"

namespace quantd::bench {

// The memory traffic that a row's time is compared with.
enum class Ceiling {
  kCopy,  // as many bytes, half of them read and half written
  kRead,  // as many bytes, all read
  kMix,   // the row's own ratio of reads and writes
};
const char* Name(Ceiling c);

struct RowSpec {
  std::string name;
  Plan::Options options;
  // The Quantize options that make the input of a Dequantize row.
  std::optional<QuantizeOptions> source = {};
  // The name of the row that this one varies, if any.
  std::string of = {};
  Ceiling ceiling = Ceiling::kCopy;
  // The measured time includes computing amaxes. Otherwise they and their
  // scales are computed before.
  bool whole = false;
  int reads = 1;       // number of reads of the input
  int64_t groups = 0;  // equal groups of rows; 0: not grouped
  bool f32 = false;    // also measured from fp32
};
const std::vector<RowSpec>& Rows();

// Returns options that give every amax and scale that can be given.
QuantizeOptions Quantize(Format format, Usage usage);

// Returns the rows whose name one of the globs matches, or all rows without
// globs, and the rows that they vary, in the table's order.
std::vector<RowSpec> SelectRows(const std::vector<std::string>& globs);

// Returns the plan of a row, or the plan that makes its input, for a tensor of
// `rows` rows. A grouped row has `groups` groups.
Plan PlanOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols,
            int64_t groups);
Plan SourceOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_
