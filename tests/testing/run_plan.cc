#include "tests/testing/run_plan.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"

namespace quantd {
namespace {

// A span of its size that is aligned for its elements and no better, with bytes
// around it that nobody may touch.
class Guarded {
 public:
  explicit Guarded(const TensorSpec& spec)
      : size_(spec.size),
        begin_(kGuard + SizeOf(spec.dtype)),
        bytes_(begin_ + size_ + kGuard, kUntouched) {}

  absl::Span<std::byte> span() { return {bytes_.data() + begin_, size_}; }
  bool intact() const {
    const auto is_guard = [](std::byte b) { return b == kUntouched; };
    return std::all_of(bytes_.begin(), bytes_.begin() + begin_, is_guard) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), is_guard);
  }

 private:
  static constexpr std::byte kUntouched{0xA5};
  static constexpr ptrdiff_t kGuard = 64;
  size_t size_;
  ptrdiff_t begin_;
  std::vector<std::byte> bytes_;
};

bool SameReport(const JobReport& a, const JobReport& b) {
  const auto same = [](const std::optional<ErrorStatistics>& x,
                       const std::optional<ErrorStatistics>& y) {
    if (!x || !y) return x.has_value() == y.has_value();
    // The sums are exact and know no order.
    return x->elements == y->elements && x->clipped == y->clipped &&
           x->flushed == y->flushed && x->max_error == y->max_error &&
           x->signal == y->signal && x->noise == y->noise;
  };
  return a.saw_nan == b.saw_nan && a.saw_inf == b.saw_inf &&
         a.replaced_globals == b.replaced_globals &&
         same(a.rowwise, b.rowwise) && same(a.columnwise, b.columnwise);
}

absl::Status CompareOnLent(Backend& backend, const Plan& plan,
                           const std::vector<oracle::Bytes>& inputs,
                           bool lend_inputs, bool lend_outputs,
                           const absl::StatusOr<Reply>& own) {
  std::vector<Guarded> in, out;
  LentMemory lent;
  for (size_t i = 0; i < plan.inputs().size() && lend_inputs; ++i) {
    in.emplace_back(plan.inputs()[i]);
    if (!inputs[i].empty()) {
      std::memcpy(in.back().span().data(), inputs[i].data(), inputs[i].size());
    }
  }
  for (size_t i = 0; i < plan.outputs().size() && lend_outputs; ++i) {
    out.emplace_back(plan.outputs()[i]);
  }
  for (Guarded& g : in) lent.inputs.push_back(g.span());
  for (Guarded& g : out) lent.outputs.push_back(g.span());
  auto job = backend.Begin(std::make_shared<const Plan>(plan), lent);
  if (!job.ok()) return job.status();
  for (size_t i = 0; i < plan.inputs().size() && !lend_inputs; ++i) {
    const TensorSpec& spec = plan.inputs()[i];
    if (spec.size == 0) continue;
    std::memcpy((*job)->staging().data() + spec.offset, inputs[i].data(),
                spec.size);
  }
  const auto report = (*job)->Run();
  if (report.status() != own.status()) {
    return absl::InternalError(
        fmt::format("on lent memory: {}", report.status().ToString()));
  }
  const auto intact = [](const Guarded& g) { return g.intact(); };
  if (!std::all_of(in.begin(), in.end(), intact) ||
      !std::all_of(out.begin(), out.end(), intact)) {
    return absl::InternalError("bytes around lent memory were written to");
  }
  if (!own.ok()) return absl::OkStatus();
  if (!SameReport(*report, own->report)) {
    return absl::InternalError("on lent memory: another report");
  }
  const Block block = (*job)->TakeOutput();
  if (block.size() != (lend_outputs ? 0 : plan.output_bytes())) {
    return absl::InternalError("a block beside lent outputs, or none");
  }
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const TensorSpec& spec = plan.outputs()[i];
    const std::byte* made =
        lend_outputs ? out[i].span().data() : block.data() + spec.offset;
    if (spec.size > 0 &&
        std::memcmp(made, own->payload.data() + spec.offset, spec.size) != 0) {
      return absl::InternalError(
          fmt::format("on lent memory: another {}", Name(spec.kind)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Reply> RunPlanOnOwnMemory(
    Backend& backend, const Plan& plan,
    const std::vector<oracle::Bytes>& inputs) {
  auto job = backend.Begin(std::make_shared<const Plan>(plan));
  if (!job.ok()) return job.status();
  const absl::Span<std::byte> staging = (*job)->staging();
  if (staging.size() != plan.input_bytes()) {
    return absl::InternalError(
        fmt::format("staging of {} bytes, the plan has {}", staging.size(),
                    plan.input_bytes()));
  }
  // What lies between the inputs must not matter.
  std::fill(staging.begin(), staging.end(), std::byte{0xA5});
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    const TensorSpec& spec = plan.inputs()[i];
    if (inputs.at(i).size() != spec.size) {
      return absl::InternalError(
          fmt::format("{}: the plan has {} bytes, the test {}", Name(spec.kind),
                      spec.size, inputs[i].size()));
    }
    if (spec.size == 0) continue;
    const size_t half = spec.size / 2;
    std::byte* to = staging.data() + spec.offset;
    std::memcpy(to, inputs[i].data(), half);
    (*job)->Fed(spec.offset + half);
    std::memcpy(to + half, inputs[i].data() + half, spec.size - half);
    (*job)->Fed(spec.offset + spec.size);
  }
  auto report = (*job)->Run();
  if (!report.ok()) return report.status();
  Reply reply{(*job)->TakeOutput(), *report};
  job->reset();
  if (reply.payload.size() != plan.output_bytes()) {
    return absl::InternalError(
        fmt::format("payload of {} bytes, the plan has {}",
                    reply.payload.size(), plan.output_bytes()));
  }
  size_t end = 0;
  for (const TensorSpec& spec : plan.outputs()) {
    for (size_t i = end; i < spec.offset; ++i) {
      if (reply.payload.data()[i] != std::byte{0}) {
        return absl::InternalError(
            fmt::format("byte {} before {} is not zero", i, Name(spec.kind)));
      }
    }
    end = spec.offset + spec.size;
  }
  return reply;
}

absl::StatusOr<Reply> RunPlan(Backend& backend, Plan plan,
                              const std::vector<oracle::Bytes>& inputs) {
  absl::StatusOr<Reply> own = RunPlanOnOwnMemory(backend, plan, inputs);
  if (!backend.info().borrows) return own;
  static std::atomic<unsigned> turn{0};
  const unsigned one = turn++ % 4;
  const std::pair<bool, bool> kinds[] = {{true, true}, {one == 0, one == 1}};
  for (const auto& [lend_inputs, lend_outputs] : kinds) {
    if (!lend_inputs && !lend_outputs) continue;
    const absl::Status same =
        CompareOnLent(backend, plan, inputs, lend_inputs, lend_outputs, own);
    if (!same.ok()) return same;
  }
  return own;
}

oracle::Bytes TensorOf(const Reply& reply, const TensorSpec& spec) {
  const auto* data = reinterpret_cast<const uint8_t*>(reply.payload.data());
  if (spec.size == 0) return {};
  return oracle::Bytes(data + spec.offset, data + spec.offset + spec.size);
}

}  // namespace quantd
