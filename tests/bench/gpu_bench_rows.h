// What gpu_bench measures: a table of plans, beside data that says what each is
// compared with.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quantd/plan.h"

namespace quantd::bench {

// Memory traffic that a row's time stands beside.
enum class Ceiling {
  kCopy,  // as many bytes, half of them read and half written
  kRead,  // as many bytes, all read
  kMix,   // the row's own mix
};
const char* Name(Ceiling c);

struct RowSpec {
  std::string name;
  Plan::Options options;
  // The Quantize that makes the input of a Dequantize.
  std::optional<QuantizeOptions> source = {};
  // The row that this one is a variant of; empty: none.
  std::string of = {};
  Ceiling ceiling = Ceiling::kCopy;
  // Also finds its amaxes in the time measured; else they, and scales made of
  // them, are in place.
  bool whole = false;
  int reads = 1;       // times that the input is read
  int64_t groups = 0;  // equal groups of rows; 0: not grouped
  bool f32 = false;    // also measured from fp32
};
const std::vector<RowSpec>& Rows();

// Quantizes with everything given that can be.
QuantizeOptions Quantize(Format format, Usage usage);

// The rows whose name one of the globs matches (all rows without globs), and
// the rows that they are variants of, in the table's order.
std::vector<RowSpec> SelectRows(const std::vector<std::string>& globs);

// The plan of a row, and that of what makes its input, for a tensor of so many
// rows. `groups`: groups that they are, of a grouped row.
Plan PlanOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols,
            int64_t groups);
Plan SourceOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols);

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_ROWS_H_
