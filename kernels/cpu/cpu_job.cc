#include "kernels/cpu/cpu_job.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/cpu/compute.h"
#include "kernels/device/lent_memory.h"
#include "kernels/device/task.h"
#include "quantd/field_error.h"

namespace quantd::cpu {

namespace {

class CpuJob : public Job {
 public:
  CpuJob(CpuDevice* device, std::shared_ptr<const Plan> plan, JobBlocks blocks)
      : device_(device), plan_(std::move(plan)), blocks_(std::move(blocks)) {}
  ~CpuJob() override { --device_->live; }

  absl::Span<std::byte> staging() override {
    if (!blocks_.lent.inputs.empty()) return {};
    return blocks_.in.bytes();
  }
  void Fed(size_t) override {}

  absl::StatusOr<FoundMaxima> FindMaxima() override {
    if (device_->tiles == nullptr) return FoundMaxima{NoMaxima(*plan_)};
    const absl::StatusOr<Plan> maxima = MaximaPlan(*plan_);
    if (!maxima.ok()) return maxima.status();
    JobBases bases;
    bases.in = blocks_.in.data();
    // The maxima are only read below; Run overwrites the whole block.
    bases.out = blocks_.out.data();
    JobReport report;
    const absl::Status status =
        Compute(device_, *maxima, bases, &report, pieces_);
    if (!status.ok()) return status;
    return FoundMaxima{ReadMaxima(*plan_, *maxima, blocks_.out.bytes()),
                       report.saw_nan, report.saw_inf};
  }
  absl::Status Settle(std::shared_ptr<const Plan> plan) override {
    plan_ = std::move(plan);
    return absl::OkStatus();
  }

  void CountPieces(std::atomic<uint64_t>* pieces) override { pieces_ = pieces; }
  absl::StatusOr<JobReport> Run() override {
    const auto start = std::chrono::steady_clock::now();
    ++device_->jobs;
    JobReport report;
    if (device_->tiles == nullptr) {
      Copy();
    } else {
      if (blocks_.copies_inputs) {
        GatherInputs(*plan_, blocks_.lent, 0, plan_->input_bytes(),
                     blocks_.in.data());
        blocks_.lent.inputs.clear();
      }
      JobBases bases;
      bases.in = blocks_.in.data();
      bases.out = blocks_.out.data();
      bases.scratch = blocks_.scratch.data();
      bases.lent = &blocks_.lent;
      WriteZeros(bases);
      const absl::Status status =
          Compute(device_, *plan_, bases, &report, pieces_);
      if (!status.ok()) return status;
    }
    blocks_.in = Block();
    blocks_.scratch = Block();
    report.times.compute_ns = (std::chrono::steady_clock::now() - start) /
                              std::chrono::nanoseconds(1);
    return report;
  }

  Block TakeOutput() override { return std::move(blocks_.out); }

 private:
  void Copy() {
    const Block& in = blocks_.in;
    const Block& out = blocks_.out;
    size_t done = 0;
    while (done < out.size()) {
      const size_t n = std::min(in.size(), out.size() - done);
      if (n == 0) {
        std::memset(out.data() + done, 0, out.size() - done);
        return;
      }
      std::memcpy(out.data() + done, in.data(), n);
      done += n;
    }
  }

  void WriteZeros(const JobBases& bases) {
    if (blocks_.lent.outputs.empty()) {
      for (const ZeroRun& gap : GapsOf(*plan_)) {
        std::memset(bases.out + gap.offset, 0, gap.width);
      }
    }
    for (const ZeroRun& run : PaddingOf(*plan_)) {
      std::byte* to = bases.OutputAt(*plan_, run.offset);
      for (size_t i = 0; i < run.count; ++i, to += run.pitch) {
        std::memset(to, 0, run.width);
      }
    }
  }

  CpuDevice* const device_;
  std::shared_ptr<const Plan> plan_;
  JobBlocks blocks_;
  std::atomic<uint64_t> uncounted_ = 0;
  std::atomic<uint64_t>* pieces_ = &uncounted_;
};

}  // namespace

std::unique_ptr<Job> MakeCpuJob(CpuDevice* device,
                                std::shared_ptr<const Plan> plan,
                                JobBlocks blocks) {
  return std::make_unique<CpuJob>(device, std::move(plan), std::move(blocks));
}

}  // namespace quantd::cpu
