#include "tests/bench/matrix/cpu_matrix.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/arith/codec.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/plan/support.h"
#include "tests/bench/cpu_runs.h"

namespace quantd::bench {
namespace {

// The shape at which bytes are compared: whole tiles.
constexpr int64_t kCheckedRows = 1024;
constexpr int64_t kCheckedCols = 512;

std::vector<std::byte> InputOf(DType dtype, size_t elements) {
  static const std::vector<float> normals = [] {
    std::vector<float> v(1 << 20);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& f : v) f = normal(random);
    return v;
  }();
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> x(elements * size);
  for (size_t i = 0; i < elements; ++i) {
    const float f = normals[i % normals.size()];
    // The upper half of an fp32 number is a bf16 number.
    uint32_t bits = std::bit_cast<uint32_t>(f) >> (32 - 8 * size);
    if (dtype == DType::kF16) bits = EncodeF16<Scalar>(f);
    std::memcpy(&x[i * size], &bits, size);
  }
  return x;
}

// A cell with a shape and its input.
struct Task {
  std::shared_ptr<const Plan> plan;
  std::vector<std::byte> made = {};  // the input of a Dequantize
};

Task TaskOf(const Cell& cell, DType dtype, int64_t rows, int64_t cols,
            Backend& backend, const std::vector<std::byte>& x) {
  Task task = {std::make_shared<const Plan>(
      PlanOf(cell.row, dtype, rows, cols, cell.row.groups))};
  if (!cell.row.source) return task;
  const auto source =
      std::make_shared<const Plan>(SourceOf(cell.row, dtype, rows, cols));
  const Block codes = OutputOf(backend, source, x);
  task.made.resize(task.plan->input_bytes());
  for (const TensorSpec& spec : task.plan->inputs()) {
    std::memcpy(&task.made[spec.offset],
                codes.data() + source->output(spec.kind)->offset, spec.size);
  }
  return task;
}

// Returns whether both backends compute the same bytes of every tensor.
bool Agree(const Cell& cell, DType dtype, Backend& a, Backend& b) {
  const auto x = InputOf(dtype, kCheckedRows * kCheckedCols);
  const Task task = TaskOf(cell, dtype, kCheckedRows, kCheckedCols, b, x);
  const auto& input = cell.row.source ? task.made : x;
  const Block ours = OutputOf(a, task.plan, input);
  const Block theirs = OutputOf(b, task.plan, input);
  for (const TensorSpec& spec : task.plan->outputs()) {
    if (std::memcmp(ours.data() + spec.offset, theirs.data() + spec.offset,
                    spec.size) != 0) {
      std::printf("%s of %s: %s differs from the baseline\n",
                  cell.row.name.c_str(), std::string(Name(dtype)).c_str(),
                  std::string(Name(spec.kind)).c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

MatrixResults MeasureOnCpu(const CpuMatrix& what, int* wrong) {
  const auto backend = OpenCpu(what.isa, what.threads);
  const auto baseline = OpenCpu("baseline", what.threads);
  cpu::ThreadPool threads(what.threads);
  MatrixResults results;
  for (const DType dtype : kInputTypes) {
    const auto x = InputOf(dtype, static_cast<size_t>(what.rows * what.cols));
    const auto pool = BlockPool::Create(PageableSource(), 3 * x.size());
    const Block from = *pool->Take(x.size());
    const Block to = *pool->Take(x.size());
    std::memcpy(from.data(), x.data(), x.size());
    for (const Cell& cell : SelectCells(dtype, what.globs, what.every)) {
      const bool agree = Agree(cell, dtype, *backend, *baseline);
      *wrong += agree ? 0 : 1;
      const Task task = TaskOf(cell, dtype, what.rows, what.cols, *backend, x);
      std::vector<double> ours, copies, busy;
      for (int i = -1; i < what.runs; ++i) {  // the first is a warm-up
        const double copy = TimeCopy(threads, from, to, size_t{4} << 20);
        const Seconds one =
            RunOnce(*backend, task.plan, cell.row.source ? task.made : x);
        if (i < 0) continue;
        copies.push_back(copy);
        ours.push_back(one.wall);
        busy.push_back(one.cpu);
      }
      const double seconds = Median(ours);
      const double ratio = Median(copies) / seconds;
      const double gb = static_cast<double>(x.size()) * 1e-9;
      results.Add(cell, dtype, ratio, !agree,
                  {{"name", cell.row.name},
                   {"dtype", Name(dtype)},
                   {"gbps", gb / seconds},
                   {"gb_per_cpu_s", gb / Median(busy)},
                   {"ratio", ratio},
                   {"checked", agree ? "baseline" : "differs"}});
    }
  }
  return results;
}

}  // namespace quantd::bench
