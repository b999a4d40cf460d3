#include "tests/testing/run_plan.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "tests/testing/lendable.h"

namespace quantd {

bool SameReport(const JobReport& a, const JobReport& b) {
  const auto same = [](const std::optional<ErrorStatistics>& x,
                       const std::optional<ErrorStatistics>& y) {
    if (!x || !y) return x.has_value() == y.has_value();
    // The sums are exact, and independent of the order.
    return x->elements == y->elements && x->clipped == y->clipped &&
           x->flushed == y->flushed && x->max_error == y->max_error &&
           x->signal == y->signal && x->noise == y->noise;
  };
  return a.saw_nan == b.saw_nan && a.saw_inf == b.saw_inf &&
         a.replaced_globals == b.replaced_globals &&
         same(a.rowwise, b.rowwise) && same(a.columnwise, b.columnwise);
}

namespace {

absl::Status CompareOnLent(Backend& backend, const Plan& plan,
                           const std::vector<oracle::Bytes>& inputs,
                           LendableKind kind, bool lend_inputs,
                           bool lend_outputs,
                           const absl::StatusOr<Reply>& own) {
  std::vector<Lendable> in, out;
  LentMemory lent;
  const auto where = [&](std::string_view what) {
    return absl::InternalError(
        fmt::format("on lent {} memory: {}", Name(kind), what));
  };
  for (size_t i = 0; i < plan.inputs().size() && lend_inputs; ++i) {
    in.emplace_back(kind, plan.inputs()[i]);
    in.back().Fill(inputs[i]);
  }
  for (size_t i = 0; i < plan.outputs().size() && lend_outputs; ++i) {
    out.emplace_back(kind, plan.outputs()[i]);
  }
  for (const Lendable& m : in) lent.inputs.push_back(m.span());
  for (const Lendable& m : out) lent.outputs.push_back(m.span());
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
    return where(report.status().ToString());
  }
  const auto intact = [](const Lendable& m) { return m.intact(); };
  if (!std::all_of(in.begin(), in.end(), intact) ||
      !std::all_of(out.begin(), out.end(), intact)) {
    return where("bytes around a tensor were overwritten");
  }
  if (!own.ok()) return absl::OkStatus();
  if (!SameReport(*report, own->report)) {
    return where("the report differs");
  }
  const Block block = (*job)->TakeOutput();
  if (block.size() != (lend_outputs ? 0 : plan.output_bytes())) {
    return where(
        "an output block beside lent outputs, or no block without them");
  }
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const TensorSpec& spec = plan.outputs()[i];
    const std::vector<std::byte> lent_bytes =
        lend_outputs ? out[i].Bytes() : std::vector<std::byte>();
    const std::byte* made =
        lend_outputs ? lent_bytes.data() : block.data() + spec.offset;
    if (spec.size > 0 &&
        std::memcmp(made, own->payload.data() + spec.offset, spec.size) != 0) {
      return where(fmt::format("{} differs", Name(spec.kind)));
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
        fmt::format("{} bytes of staging, but the plan has {}", staging.size(),
                    plan.input_bytes()));
  }
  // The bytes between the inputs must not matter.
  std::fill(staging.begin(), staging.end(), std::byte{0xA5});
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    const TensorSpec& spec = plan.inputs()[i];
    if (inputs.at(i).size() != spec.size) {
      return absl::InternalError(
          fmt::format("{}: the plan has {} bytes, but the test {}",
                      Name(spec.kind), spec.size, inputs[i].size()));
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
        fmt::format("{} bytes of payload, but the plan has {}",
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
  // Lends both, or only inputs or outputs, and alternates the kinds of memory.
  if (!backend.info().borrows) return own;
  const std::vector<LendableKind> kinds = LendableKinds(backend.info().kind);
  static std::atomic<unsigned> turns{0};
  const unsigned turn = turns++;
  const LendableKind kind = kinds[turn % kinds.size()];
  const auto alone = turn / kinds.size() % 4;
  const absl::Status same =
      CompareOnLent(backend, plan, inputs, kind, alone != 0, alone != 1, own);
  if (!same.ok()) return same;
  return own;
}

oracle::Bytes TensorOf(const Reply& reply, const TensorSpec& spec) {
  const auto* data = reinterpret_cast<const uint8_t*>(reply.payload.data());
  if (spec.size == 0) return {};
  return oracle::Bytes(data + spec.offset, data + spec.offset + spec.size);
}

}  // namespace quantd
