#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/choice.h"
#include "kernels/cuda/compute.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/tables.h"
#include "kernels/device/host_output.h"
#include "kernels/device/recipe.h"

namespace quantd::cuda {
namespace {

constexpr int kDefaultSlots = 4;
// Fed bytes are copied in steps of at least this: a copy has a fixed cost.
constexpr size_t kCopyStep = size_t{1} << 20;
// Above it waiting for the device blocks; below, spinning answers sooner.
constexpr size_t kSpinBytes = size_t{1} << 20;

class CudaBackend : public Backend {
 public:
  CudaBackend(BackendInfo info, std::unique_ptr<Device> device)
      : info_(std::move(info)), device_(std::move(device)) {}

  const BackendInfo& info() const override { return info_; }

  BackendStats stats() const override {
    BackendStats s;
    s.healthy = device_->Health().ok();
    s.jobs = jobs_;
    s.rht_cache_hits = device_->rht_hits();
    s.rht_cache_misses = device_->rht_misses();
    s.rht_launches = rht_launches_;
    s.pool_high_water = device_->pinned().high_water();
    return s;
  }

  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan,
                                             LentMemory lent) override;

 private:
  friend class CudaJob;

  absl::StatusOr<std::unique_ptr<Job>> Prepare(std::shared_ptr<const Plan> plan,
                                               Device::Lease* lease);

  const BackendInfo info_;
  const std::unique_ptr<Device> device_;
  std::atomic<uint64_t> jobs_ = 0;
  std::atomic<uint64_t> rht_launches_ = 0;
};

class CudaJob : public Job {
 public:
  struct Memory {
    Block in;  // pinned
    Block out;
    Block device_in;
    Block device_out;
    Block tables;  // pinned
    Block device_tables;
  };

  CudaJob(CudaBackend* backend, std::shared_ptr<const Plan> plan,
          std::unique_ptr<const Work> work, Tables tables, Memory memory,
          std::shared_ptr<const CachedRht> rht, Device::Lease lease)
      : backend_(backend),
        plan_(std::move(plan)),
        work_(std::move(work)),
        tables_(std::move(tables)),
        memory_(std::move(memory)),
        rht_(std::move(rht)),
        lease_(std::move(lease)),
        queue_{lease_->stream, backend->device_->properties().multiprocessors} {
  }

  absl::Span<std::byte> staging() override { return memory_.in.bytes(); }

  void Fed(size_t n) override {
    const bool all = n == memory_.in.size();
    if (!status_.ok() || n == fed_ || (!all && n - fed_ < kCopyStep)) return;
    status_ = CopyIn(n);
  }

  absl::StatusOr<JobReport> Run() override {
    ++backend_->jobs_;
    JobReport report;
    if (plan_->rows() == 0 || plan_->cols() == 0) {
      WriteEmpty(*plan_, work_->recipe, OnHost());
      Report(ErrorSums{}, ErrorSums{}, &report);
    } else {
      Fed(memory_.in.size());
      absl::Status status =
          backend_->device_->HealthAfter(Execute(&report), lease_);
      if (!status.ok()) return status;
    }
    done_ = true;
    // Only the output is wanted now; others may use the rest.
    lease_ = Device::Lease();
    Block out = std::move(memory_.out);
    memory_ = Memory();
    memory_.out = std::move(out);
    return report;
  }

  Block TakeOutput() override {
    return done_ ? std::move(memory_.out) : Block();
  }

 private:
  JobBases OnHost() const {
    JobBases bases;
    bases.out = memory_.out.data();
    return bases;
  }

  absl::Status CopyIn(size_t n) {
    if (absl::Status s = backend_->device_->Enter(); !s.ok()) return s;
    if (fed_ == 0) {
      if (absl::Status s = Mark(Slot::kStart); !s.ok()) return s;
    }
    QUANTD_CUDA_RETURN(cudaMemcpyAsync(memory_.device_in.data() + fed_,
                                       memory_.in.data() + fed_, n - fed_,
                                       cudaMemcpyHostToDevice, lease_->stream),
                       "copy in");
    fed_ = n;
    return absl::OkStatus();
  }

  absl::Status Mark(Slot::Mark mark) {
    return CudaStatus(cudaEventRecord(lease_->marks[mark], lease_->stream),
                      "record an event");
  }

  // Queues everything, waits once.
  absl::Status Execute(JobReport* report) {
    if (!status_.ok()) return status_;
    const cudaStream_t stream = lease_->stream;
    const Block& out = memory_.out;
    if (absl::Status s = backend_->device_->Enter(); !s.ok()) return s;
    if (absl::Status s = Mark(Slot::kFed); !s.ok()) return s;
    tables_.Place(memory_.tables.data(), memory_.device_tables.data());
    JobMemory memory;
    memory.payload.in = memory_.device_in.data();
    memory.payload.out = memory_.device_out.data();
    memory.payload.signs = rht_ ? rht_->signs : nullptr;
    memory.findings = lease_->findings;
    int rht_launches = 0;
    QUANTD_CUDA_RETURN(
        QueueWork(*work_, memory, queue_, &tables_, &rht_launches), "launch");
    backend_->rht_launches_ += rht_launches;
    if (absl::Status s = Mark(Slot::kComputed); !s.ok()) return s;
    QUANTD_CUDA_RETURN(
        cudaMemcpyAsync(out.data(), memory_.device_out.data(), out.size(),
                        cudaMemcpyDeviceToHost, stream),
        "copy out");
    QUANTD_CUDA_RETURN(cudaMemcpyAsync(lease_->findings_host, lease_->findings,
                                       FindingsBytes(work_->recipe),
                                       cudaMemcpyDeviceToHost, stream),
                       "copy out");
    if (absl::Status s = Mark(Slot::kDone); !s.ok()) return s;
    QUANTD_CUDA_RETURN(memory_.in.size() + out.size() > kSpinBytes
                           ? cudaEventSynchronize(lease_->marks[Slot::kDone])
                           : cudaStreamSynchronize(stream),
                       "compute");
    return Fill(report);
  }

  absl::Status Fill(JobReport* report) {
    const Findings& findings = *lease_->findings_host;
    report->saw_nan = (findings.found.seen & kSeenNan) != 0;
    report->saw_inf = (findings.found.seen & kSeenInf) != 0;
    Report(findings.sums[0], findings.sums[1], report);
    JobTimes& times = report->times;
    int64_t* const stages[] = {&times.copy_in_ns, &times.compute_ns,
                               &times.copy_out_ns};
    for (int i = 0; i < 3; ++i) {
      float ms = 0;
      QUANTD_CUDA_RETURN(
          cudaEventElapsedTime(&ms, lease_->marks[i], lease_->marks[i + 1]),
          "read a time");
      *stages[i] = static_cast<int64_t>(ms * 1e6);
    }
    if (absl::Status s =
            CheckFinite(work_->recipe, report->saw_nan, report->saw_inf);
        !s.ok()) {
      return s;
    }
    WriteHistory(*plan_, work_->recipe, OnHost());
    report->replaced_globals = WriteGlobalScales(*plan_, OnHost());
    return absl::OkStatus();
  }

  // Statistics, where they are wanted.
  void Report(const ErrorSums& rowwise, const ErrorSums& columnwise,
              JobReport* report) const {
    const Recipe& recipe = work_->recipe;
    if (!recipe.statistics) return;
    if (recipe.copies[0].wanted) report->rowwise = rowwise.Finish();
    if (recipe.copies[1].wanted) report->columnwise = columnwise.Finish();
  }

  CudaBackend* const backend_;
  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<const Work> work_;
  Tables tables_;
  Memory memory_;
  const std::shared_ptr<const CachedRht> rht_;
  // After what its stream uses: the lease waits, then the memory goes.
  Device::Lease lease_;
  const Queue queue_;
  absl::Status status_;  // of the copies in
  size_t fed_ = 0;
  bool done_ = false;
};

absl::StatusOr<std::unique_ptr<Job>> CudaBackend::Begin(
    std::shared_ptr<const Plan> plan, LentMemory lent) {
  if (!lent.inputs.empty() || !lent.outputs.empty()) {
    return absl::UnimplementedError(
        fmt::format("{} works on memory of its own alone", info_.name));
  }
  if (absl::Status s = device_->Health(); !s.ok()) return s;
  Device::Lease lease = device_->TakeSlot();
  if (!lease) {
    return absl::ResourceExhaustedError(
        fmt::format("all {} slots of {} are taken", info_.slots, info_.name));
  }
  absl::StatusOr<std::unique_ptr<Job>> job = Prepare(std::move(plan), &lease);
  if (!job.ok()) return device_->HealthAfter(job.status(), lease);
  return job;
}

absl::StatusOr<std::unique_ptr<Job>> CudaBackend::Prepare(
    std::shared_ptr<const Plan> plan, Device::Lease* lease) {
  if (absl::Status s = device_->Enter(); !s.ok()) return s;
  auto work = std::make_unique<const Work>(*plan);
  Tables tables(*work);
  CudaJob::Memory memory;
  const auto take = [](BlockPool& pool, size_t bytes, Block* to) {
    absl::StatusOr<Block> block = pool.Take(bytes);
    if (block.ok()) *to = *std::move(block);
    return block.status();
  };
  const struct {
    BlockPool& pool;
    size_t bytes;
    Block* to;
  } wanted[] = {
      {device_->pinned(), plan->input_bytes(), &memory.in},
      {device_->pinned(), plan->output_bytes(), &memory.out},
      {device_->memory(), plan->input_bytes(), &memory.device_in},
      {device_->memory(), plan->output_bytes(), &memory.device_out},
      {device_->table_pinned(), tables.host_bytes(), &memory.tables},
      {device_->table_memory(), tables.device_bytes(), &memory.device_tables},
  };
  for (const auto& w : wanted) {
    if (absl::Status s = take(w.pool, w.bytes, w.to); !s.ok()) return s;
  }
  std::shared_ptr<const CachedRht> rht;
  if (const std::optional<Rotation>& use = work->recipe.rotation) {
    auto cached =
        device_->GetRht(use->mask, use->dimension, use->dtype, *lease);
    if (!cached.ok()) return cached.status();
    rht = *std::move(cached);
  }
  return std::make_unique<CudaJob>(this, std::move(plan), std::move(work),
                                   std::move(tables), std::move(memory),
                                   std::move(rht), std::move(*lease));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal,
                                              const BackendOptions& options) {
  const int slots = options.slots > 0 ? options.slots : kDefaultSlots;
  absl::StatusOr<std::unique_ptr<Device>> device =
      Device::Open(ordinal, slots, options.memory_limit);
  if (!device.ok()) return device.status();
  const Device::Properties& p = (*device)->properties();
  BackendInfo info;
  info.name = fmt::format("cuda:{}", ordinal);
  info.kind = "cuda";
  info.description = fmt::format("{}, sm_{}{}", p.name, p.major, p.minor);
  info.slots = slots;
  info.memory_limit = options.memory_limit;
  return std::make_unique<CudaBackend>(std::move(info), *std::move(device));
}

std::string UnavailableReason() { return Device::WhyNot(0); }

int DeviceCount() {
  int count = 0;
  if (!UnavailableReason().empty()) return 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace quantd::cuda
