#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "kernels/plan/support.h"
#include "tests/bench/cpu_runs.h"
#include "tests/bench/matrix/cpu_matrix.h"

namespace quantd::bench {
namespace {

struct Shape {
  int64_t rows;
  int64_t cols;
  int64_t groups = 0;  // number of groups (see SplitsOf); 0: not grouped
};

// Shapes of about a million elements. The first is the usual one; others are
// tall, wide, prime, or have many groups.
constexpr Shape kShapes[] = {
    {1024, 1024},
    {1 << 20, 1},
    {1 << 18, 4},
    {1 << 16, 16},
    {1 << 15, 32},
    {1 << 13, 128},
    {1, 1 << 20},
    {4, 1 << 18},
    {16, 1 << 16},
    {1021, 1031},
    {131, 8009},
    {149797, 7},
    {7, 149797},
    {8009, 131},
    {1 << 14, 64, 1 << 14},
    {1 << 16, 16, 1 << 14},
    {1 << 20, 1, 1 << 14},
    {1 << 11, 512, 1 << 11},
};

std::string Text(const Shape& shape) {
  std::string text =
      std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
  if (shape.groups > 0) text += " in " + std::to_string(shape.groups);
  return text;
}

// Returns the rows of each group, from 0 to twice the mean.
std::vector<int64_t> SplitsOf(const Shape& shape) {
  const int64_t mean = shape.rows / shape.groups;
  std::vector<int64_t> splits(shape.groups, mean);
  for (int64_t i = 0; i + 1 < shape.groups; i += 2) {
    const int64_t moved = i / 2 % (mean + 1);
    splits[i] -= moved;
    splits[i + 1] += moved;
  }
  return splits;
}

absl::StatusOr<Plan> PlanOf(const Plan::Options& options, DType dtype,
                            const Shape& shape) {
  const TensorDesc tensor = {dtype, {shape.rows, shape.cols}, -1};
  if (const auto* q = std::get_if<QuantizeOptions>(&options)) {
    QuantizeOptions o = *q;
    if (shape.groups > 0) {
      o.splits = SplitsOf(shape);
      for (auto* given : {&o.rowwise_amax, &o.columnwise_amax, &o.fp8.scale}) {
        if (!given->empty()) given->resize(shape.groups, given->front());
      }
    }
    return MakeQuantizePlan(tensor, o);
  }
  if (shape.groups > 0) return absl::UnimplementedError("not grouped");
  if (const auto* d = std::get_if<DequantizeOptions>(&options)) {
    DequantizeOptions o = *d;
    o.output = dtype;
    return MakeDequantizePlan(tensor, o);
  }
  if (const auto* a = std::get_if<RhtAmaxOptions>(&options)) {
    return MakeRhtAmaxPlan(tensor, *a);
  }
  return MakeApplyRhtPlan(tensor, std::get<ApplyRhtOptions>(options));
}

// Returns bytes in and out per second of CPU time, or 0 if the plan is illegal.
double RateOf(const Cell& cell, DType dtype, const Shape& shape, int runs,
              Backend& backend, const std::vector<std::byte>& x) {
  const auto made = PlanOf(cell.row.options, dtype, shape);
  if (!made.ok()) return 0;
  const auto plan = std::make_shared<const Plan>(*made);
  // Arbitrary bytes are decoded, since the speed does not depend on them.
  std::vector<std::byte> input = x;
  input.resize(plan->input_bytes());
  double least = std::numeric_limits<double>::infinity();
  for (int i = -1; i < runs; ++i) {  // the first is a warm-up
    const double seconds = RunOnce(backend, plan, input).cpu;
    if (i >= 0) least = std::min(least, seconds);
  }
  return static_cast<double>(plan->input_bytes() + plan->output_bytes()) /
         least;
}

std::vector<Cell> OtherCalls() {
  std::vector<Cell> cells;
  for (const int dimension : kRhtDimensions) {
    RhtAmaxOptions amax;
    amax.rowwise_rht = amax.columnwise_rht = true;
    amax.rht_dimension = dimension;
    const std::string n = std::to_string(dimension);
    cells.push_back({{"rht amax " + n, amax}, "", Usage::kBoth});
    ApplyRhtOptions apply;
    apply.rht_dimension = dimension;
    cells.push_back({{"apply rht " + n, apply}, "", Usage::kNone});
  }
  return cells;
}

}  // namespace

int FindSlowShapes(const CpuMatrix& what, double least) {
  const auto backend = OpenCpu(what.isa, what.threads);
  const std::vector<std::byte> x = Gaussian(size_t{16} << 20);
  int slow = 0;
  for (const DType dtype : kInputTypes) {
    std::vector<Cell> cells = SelectCells(dtype, what.globs, what.every);
    if (what.globs.empty()) {
      for (Cell& cell : OtherCalls()) cells.push_back(std::move(cell));
    }
    for (const Cell& cell : cells) {
      const double usual =
          RateOf(cell, dtype, kShapes[0], what.runs, *backend, x);
      for (const Shape& shape : kShapes) {
        const double rate = RateOf(cell, dtype, shape, what.runs, *backend, x);
        if (rate == 0 || rate >= least * usual) continue;
        std::printf("%-52s %-5s %-22s %8.1f MB/s of %8.1f: %.3f\n",
                    cell.row.name.c_str(), std::string(Name(dtype)).c_str(),
                    Text(shape).c_str(), rate * 1e-6, usual * 1e-6,
                    rate / usual);
        ++slow;
      }
      std::fflush(stdout);
    }
  }
  std::printf("%d cells are below %.2f of the usual speed\n", slow, least);
  return slow;
}

}  // namespace quantd::bench
