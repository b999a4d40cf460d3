#include "tests/bench/gpu_bench_check.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "kernels/arith/codec.h"
#include "tests/bench/gpu_ceiling.h"

namespace quantd::bench {
namespace {

constexpr int64_t kPeriodElements = int64_t{1} << 23;

template <typename T>
T Must(absl::StatusOr<T> result, const std::string& name) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(),
                 result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

// Returns the CPU's output for the input that `fill` writes.
template <typename Fill>
Block Expect(Backend& cpu, std::shared_ptr<const Plan> plan,
             const std::string& name, Fill fill) {
  auto job = Must(cpu.Begin(std::move(plan)), name);
  fill(job->staging().data());
  Must(job->Run(), name);
  return job->TakeOutput();
}

// A small tensor with the rows of `content` that the CPU computes.
class Small {
 public:
  Small(const RowSpec& row, const Content& content)
      : row_(row), content_(content) {
    rows_ = content.period;
    if (row.groups > 0) {
      const int64_t group = content.rows / row.groups;
      rows_ = std::max(rows_, group);
      groups_ = rows_ / group;
    }
  }

  int64_t rows() const { return rows_; }
  bool all() const { return rows_ == content_.rows; }

  // Random bits depend on `row_offset`, the first row of the large tensor that
  // this one represents.
  Plan MakePlan(int64_t row_offset) const {
    RowSpec spec = row_;
    if (auto* o = std::get_if<QuantizeOptions>(&spec.options)) {
      o->shard.row_offset = row_offset;
    }
    return PlanOf(spec, content_.dtype, rows_, content_.cols, groups_);
  }

  Block Run(Backend& cpu, const Plan& plan) const {
    const auto fill = [&](std::byte* to) { FillInput(to); };
    if (!row_.source) {
      return Expect(cpu, std::make_shared<const Plan>(plan), row_.name, fill);
    }
    const auto source = std::make_shared<const Plan>(
        SourceOf(row_, content_.dtype, rows_, content_.cols));
    const Block codes = Expect(cpu, source, row_.name, fill);
    return Expect(
        cpu, std::make_shared<const Plan>(plan), row_.name, [&](std::byte* to) {
          for (const TensorSpec& spec : plan.inputs()) {
            std::memcpy(to + spec.offset,
                        codes.data() + source->output(spec.kind)->offset,
                        spec.size);
          }
        });
  }

 private:
  void FillInput(std::byte* to) const {
    const std::vector<std::byte>& period = content_.rows_of_period;
    for (int64_t row = 0; row < rows_; row += content_.period) {
      std::memcpy(to, period.data(), period.size());
      to += period.size();
    }
  }

  const RowSpec& row_;
  const Content& content_;
  int64_t rows_;
  int64_t groups_ = 0;
};

// A tensor as lines of bytes. A matrix with fewer rows has fewer lines, or
// shorter ones.
struct Lines {
  size_t count;
  size_t width;
};
Lines LinesOf(const TensorSpec& spec, bool grouped) {
  size_t count = 1;
  if (!grouped && spec.shape.size() == 2) {
    count = spec.shape[0] / (spec.layout == Layout::kSwizzled ? 128 : 1);
  }
  return {count, spec.size / count};
}

// Compares the first or last rows of the device's output. Returns "" or the
// difference.
std::string Compare(const Plan& plan, const std::byte* out, const Plan& small,
                    const std::byte* expected, bool last, cudaStream_t stream) {
  for (const TensorSpec& spec : plan.outputs()) {
    if (IsOfHost(spec)) continue;
    const TensorSpec& part = *small.output(spec.kind);
    const bool sums = spec.kind == TensorKind::kDbias && !plan.grouped();
    if (sums && plan.rows() != small.rows()) continue;
    const Lines of = LinesOf(spec, plan.grouped());
    const Lines to = LinesOf(part, plan.grouped());
    const std::byte* from = out + spec.offset;
    if (last) from += (of.count - to.count) * of.width + of.width - to.width;
    std::vector<std::byte> bytes(part.size);
    Check(cudaMemcpy2DAsync(bytes.data(), to.width, from, of.width, to.width,
                            to.count, cudaMemcpyDeviceToHost, stream),
          "copy out");
    Check(cudaStreamSynchronize(stream), "copy out");
    const std::byte* want = expected + part.offset;
    const auto differs =
        std::mismatch(bytes.begin(), bytes.end(), want).first - bytes.begin();
    if (static_cast<size_t>(differs) < bytes.size()) {
      return std::string(Name(spec.kind)) + (last ? " (last rows)" : "") +
             " differs from the CPU's at byte " + std::to_string(differs);
    }
  }
  return "";
}

// Returns whether two jobs have the same output.
bool SameOnDevice(const DeviceJob& a, const DeviceJob& b, cudaStream_t stream) {
  Memory flag(sizeof(uint32_t));
  auto* differs = reinterpret_cast<uint32_t*>(flag.data());
  uint32_t found = 0;
  Check(cudaMemsetAsync(differs, 0, sizeof(found), stream), "compare");
  Check(
      LaunchCompare(a.out(), b.out(), a.plan().output_bytes(), differs, stream),
      "compare");
  Check(cudaMemcpyAsync(&found, differs, sizeof(found), cudaMemcpyDeviceToHost,
                        stream),
        "compare");
  Check(cudaStreamSynchronize(stream), "compare");
  return found == 0;
}

}  // namespace

Content MakeContent(DType dtype, int64_t rows, int64_t cols, int64_t most) {
  static const std::vector<float> normals = [] {
    std::vector<float> v(kPeriodElements);
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (float& x : v) x = normal(rng);
    return v;
  }();
  Content content = {dtype, rows, cols, std::min<int64_t>(most, rows), {}};
  while (content.period * cols > kPeriodElements && content.period > 128) {
    content.period /= 2;
  }
  const int64_t count = content.period * cols;
  const size_t size = SizeOf(dtype);
  content.rows_of_period.resize(static_cast<size_t>(count) * size);
  for (int64_t i = 0; i < count; ++i) {
    const float& x = normals[static_cast<size_t>(i) % normals.size()];
    // The upper half of an fp32 number is a bf16 number.
    uint32_t bits = std::bit_cast<uint32_t>(x) >> (32 - 8 * size);
    if (dtype == DType::kF16) bits = EncodeF16<Scalar>(x);
    std::memcpy(&content.rows_of_period[static_cast<size_t>(i) * size], &bits,
                size);
  }
  return content;
}

cuda::Part PartOf(const RowSpec& row) {
  return row.whole ? cuda::Part::kKernels : cuda::Part::kCopies;
}

Verdict CheckRow(const RowSpec& row, const Content& content, Backend& cpu,
                 cudaStream_t stream, DeviceJob* first, DeviceJob* second) {
  Check(first->Poison(0xA5), "poison");
  Check(first->QueueWhole(), row.name);
  const Small small(row, content);
  const auto* o = std::get_if<QuantizeOptions>(&row.options);
  const bool random = o != nullptr && o->rounding == Rounding::kStochastic;
  const Plan plan = small.MakePlan(0);
  Block expected = small.Run(cpu, plan);
  for (const bool last : {false, true}) {
    if (last && small.all()) continue;
    if (last && random) {
      expected = small.Run(cpu, small.MakePlan(content.rows - small.rows()));
    }
    const std::string wrong = Compare(first->plan(), first->out(), plan,
                                      expected.data(), last, stream);
    if (!wrong.empty()) return {false, wrong};
  }
  Check(second->Poison(0x5A), "poison");
  Check(second->QueueWhole(), row.name);
  if (!SameOnDevice(*first, *second, stream)) {
    return {false, "bytes not written"};
  }
  Check(second->Poison(0x5A, PartOf(row)), "poison");
  Check(second->QueueAgain(PartOf(row)), row.name);
  if (!SameOnDevice(*first, *second, stream)) {
    return {false, "bytes not written by the measured part"};
  }
  return {true, small.all() ? "cpu" : "cpu, first and last rows"};
}

}  // namespace quantd::bench
