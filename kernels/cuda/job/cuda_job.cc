#include "kernels/cuda/job/cuda_job.h"

#include <cuda_runtime_api.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/compute.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/job/job_kernels.h"
#include "kernels/cuda/job/maxima_search.h"
#include "kernels/cuda/job/staging.h"
#include "kernels/cuda/job/wait.h"
#include "kernels/device/device_memory.h"
#include "kernels/device/host_output.h"
#include "kernels/device/recipe.h"
#include "kernels/device/slabs.h"
#include "quantd/field_error.h"

namespace quantd::cuda {
namespace {

// The least number of fed bytes to copy at once: every copy has a fixed cost.
constexpr size_t kCopyStep = size_t{1} << 20;
// The size of slabs for lent memory. Larger slabs make the first and the last
// copy longer. Smaller slabs need more launches.
constexpr size_t kSlabBytes = size_t{8} << 20;

// The rotation of a plan, or null.
using Rht = std::shared_ptr<const CachedRht>;

class CudaJob : public Job {
 public:
  CudaJob(Device* device, JobCounts* counts, std::shared_ptr<const Plan> plan,
          std::unique_ptr<Kernels> whole, Staging staging,
          const EventMapping* record, Rht rht, Device::Lease lease)
      : device_(*device),
        counts_(*counts),
        staged_(plan),
        plan_(std::move(plan)),
        whole_(std::move(whole)),
        staging_(std::move(staging)),
        record_(record),
        rht_(std::move(rht)),
        lease_(std::move(lease)),
        queue_{lease_->stream, device_.properties().multiprocessors,
               device_.properties().shared_memory, lease_->tickets} {}

  // Cuts the job into slabs if it can then copy in and out concurrently.
  // Otherwise takes memory for the tables of its kernels.
  absl::Status Prepare() {
    if (staging_.lent_inputs() && staging_.copies_in()) {
      cut_ = CutIntoSlabs(*plan_, whole_->recipe(), kSlabBytes);
    }
    return cut_.empty() ? whole_->Take(device_) : absl::OkStatus();
  }

  absl::Span<std::byte> staging() override { return staging_.pinned_in(); }

  void Fed(size_t n) override {
    const bool all = n == staging_.pinned_in().size();
    if (!status_.ok() || n == fed_ || (!all && n - fed_ < kCopyStep)) return;
    status_ = CopyFed(n);
  }

  absl::StatusOr<FoundMaxima> FindMaxima() override {
    if (plan_->rows() == 0 || plan_->cols() == 0) {
      return FoundMaxima{NoMaxima(*plan_)};
    }
    absl::StatusOr<Plan> maxima = MaximaPlan(*plan_);
    if (!maxima.ok()) return maxima.status();
    search_ =
        std::make_unique<MaximaSearch>(plan_, *std::move(maxima), device_);
    FoundMaxima found;
    absl::Status status = device_.HealthAfter(Search(&found), lease_);
    if (!status.ok()) return status;
    search_.reset();
    return found;
  }

  absl::Status Settle(std::shared_ptr<const Plan> plan) override {
    whole_.reset();
    plan_ = std::move(plan);
    whole_ = std::make_unique<Kernels>(*plan_, device_, /*gaps=*/true);
    return whole_->Take(device_);
  }

  absl::StatusOr<JobReport> Run() override {
    ++counts_.jobs;
    JobReport report;
    absl::Status status = plan_->rows() == 0 || plan_->cols() == 0
                              ? FinishEmpty(&report)
                              : Execute(&report);
    if (status.ok()) status = Record();
    status = device_.HealthAfter(std::move(status), lease_);
    if (!status.ok()) return status;
    // Only the output is still needed: other jobs can reuse the rest.
    lease_ = Device::Lease();
    output_ = staging_.Finish();
    whole_.reset();
    slabs_.clear();
    return report;
  }

  Block TakeOutput() override { return std::move(output_); }

  // Gives up the lease of a job that will not run.
  Device::Lease TakeLease() { return std::move(lease_); }

 private:
  absl::Status Mark(Slot::Mark mark, cudaStream_t stream) {
    // A direct job copies nothing, so only its start and its end are timed.
    if (staging_.direct() && mark != Slot::kStart && mark != Slot::kDone) {
      return absl::OkStatus();
    }
    return CudaStatus(cudaEventRecord(lease_->marks[mark], stream),
                      "record an event");
  }

  // Makes later work on `after` wait for the work queued so far on `before`.
  absl::Status Follow(cudaStream_t before, cudaStream_t after) {
    QUANTD_CUDA_RETURN(cudaEventRecord(lease_->passed, before),
                       "record an event");
    return CudaStatus(cudaStreamWaitEvent(after, lease_->passed),
                      "wait for an event");
  }

  absl::Status CopyFed(size_t n) {
    if (absl::Status s = device_.Enter(); !s.ok()) return s;
    if (fed_ == 0) {
      if (auto s = Mark(Slot::kStart, lease_->stream); !s.ok()) return s;
    }
    const size_t first = std::exchange(fed_, n);
    return staging_.CopyFed(first, n, lease_->stream);
  }

  JobMemory MemoryOnDevice() const {
    JobMemory memory;
    memory.payload = staging_.OnDevice();
    memory.payload.signs = rht_ ? rht_->signs : nullptr;
    memory.findings =
        FindingsOnHost() ? lease_->findings_host : lease_->findings;
    memory.findings_hold = FindingsOnHost();
    memory.has_given_amaxes = staging_.direct();
    return memory;
  }

  absl::Status Search(FoundMaxima* found) {
    if (absl::Status s = device_.Enter(); !s.ok()) return s;
    if (auto s = search_->Take(device_); !s.ok()) return s;
    Fed(staging_.pinned_in().size());
    if (!status_.ok()) return status_;
    return search_->Run(staging_, MemoryOnDevice(), *lease_, queue_,
                        &counts_.rht_launches, found);
  }

  // Queues everything before it waits.
  absl::Status Execute(JobReport* report) {
    if (absl::Status s = device_.Enter(); !s.ok()) return s;
    const auto since = std::chrono::steady_clock::now();
    const bool is_cut = !cut_.empty();
    const cudaStream_t last = is_cut ? lease_->out : lease_->stream;
    absl::Status queued = is_cut ? QueueSlabs() : QueueWhole();
    if (!queued.ok()) return queued;
    if (auto s = DeliverSlabs(); !s.ok()) return s;
    if (auto s = staging_.MirrorToHost(last); !s.ok()) return s;
    if (!FindingsOnHost()) {
      QUANTD_CUDA_RETURN(
          cudaMemcpyAsync(lease_->findings_host, lease_->findings,
                          FindingsBytes(whole_->recipe()),
                          cudaMemcpyDeviceToHost, last),
          "copy out");
    }
    if (auto s = Mark(Slot::kDone, last); !s.ok()) return s;
    QUANTD_CUDA_RETURN(Await(*lease_, last, staging_.copied_bytes(), since),
                       "compute");
    return Finish(report);
  }

  // Whether kernels write findings directly to host memory. Atomics on it are
  // slow, so findings must be rare.
  bool FindingsOnHost() const {
    const Recipe& recipe = whole_->recipe();
    return staging_.direct() && !recipe.search.any() && !recipe.statistics;
  }

  absl::Status QueueWhole() {
    const cudaStream_t stream = lease_->stream;
    if (staging_.lent_inputs()) {
      if (auto s = Mark(Slot::kStart, stream); !s.ok()) return s;
      if (auto s = staging_.CopyIn(stream); !s.ok()) return s;
    } else {
      Fed(staging_.pinned_in().size());
      if (!status_.ok()) return status_;
    }
    if (auto s = Mark(Slot::kFed, stream); !s.ok()) return s;
    if (FindingsOnHost()) *lease_->findings_host = {};
    if (staging_.direct()) {
      for (const AmaxOutput& amax : whole_->recipe().amaxes) {
        if (amax.from != AmaxOutput::From::kGiven || amax.lines) continue;
        WriteGivenAmax(*plan_, amax, staging_.OnHost());
      }
    }
    if (auto s = whole_->Queue(MemoryOnDevice(), queue_, &counts_.rht_launches);
        !s.ok()) {
      return s;
    }
    if (auto s = Mark(Slot::kComputed, stream); !s.ok()) return s;
    return staging_.CopyOut(stream);
  }

  // Queues all slabs. While one slab is computed, the next is copied in and the
  // previous one is copied out.
  absl::Status QueueSlabs() {
    if (auto s = Mark(Slot::kStart, lease_->in); !s.ok()) return s;
    for (Slab& slab : cut_) {
      slabs_.push_back(std::make_unique<SlabOfJob>(std::move(slab), device_));
      SlabOfJob& part = *slabs_.back();
      if (auto s = part.Take(device_); !s.ok()) return s;
      if (auto s = QueueSlab(part); !s.ok()) return s;
    }
    if (auto s = Mark(Slot::kFed, lease_->in); !s.ok()) return s;
    if (auto s = Mark(Slot::kComputed, lease_->stream); !s.ok()) return s;
    // ReadTimes needs the marks of all streams, but only `out` is awaited.
    for (const Slot::Mark mark : {Slot::kFed, Slot::kComputed}) {
      QUANTD_CUDA_RETURN(cudaStreamWaitEvent(lease_->out, lease_->marks[mark]),
                         "wait for an event");
    }
    return absl::OkStatus();
  }

  absl::Status QueueSlab(SlabOfJob& part) {
    const std::vector<TensorSpec>& inputs = part.slab.plan.inputs();
    const std::vector<TensorSpec>& outputs = part.slab.plan.outputs();
    JobMemory memory = MemoryOnDevice();
    memory.findings_hold = &part != slabs_.front().get();
    LentMemory parts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t first = part.slab.inputs[i];
      const size_t size = inputs[i].size;
      absl::Status in = staging_.CopyIn(i, first, size, lease_->in);
      if (!in.ok()) return in;
      parts.inputs.push_back(
          memory.payload.lent->inputs[i].subspan(first, size));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      parts.outputs.push_back(memory.payload.lent->outputs[i].subspan(
          part.slab.outputs[i], outputs[i].size));
    }
    memory.payload.lent = &parts;
    if (auto s = Follow(lease_->in, lease_->stream); !s.ok()) return s;
    if (auto s = part.kernels.Queue(memory, queue_, &counts_.rht_launches);
        !s.ok())
      return s;
    if (auto s = Follow(lease_->stream, lease_->out); !s.ok()) return s;
    for (size_t i = 0; i < outputs.size(); ++i) {
      absl::Status out = staging_.CopyOut(i, part.slab.outputs[i],
                                          outputs[i].size, lease_->out);
      if (!out.ok()) return out;
    }
    return CudaStatus(cudaEventRecord(part.out, lease_->out),
                      "record an event");
  }

  // Copies outputs to pageable memory, slab by slab as they arrive.
  absl::Status DeliverSlabs() {
    if (!staging_.delivers()) return absl::OkStatus();
    for (const auto& part : slabs_) {
      QUANTD_CUDA_RETURN(cudaEventSynchronize(part->out), "compute");
      for (size_t i = 0; i < part->slab.outputs.size(); ++i) {
        staging_.DeliverBulk(i, part->slab.outputs[i],
                             part->slab.plan.outputs()[i].size);
      }
    }
    return absl::OkStatus();
  }

  // Records the lent event. A failure is reported as an error of the caller
  // that lent it. If the device has faulted, the next job reports that.
  absl::Status Record() {
    if (record_ == nullptr) return absl::OkStatus();
    const cudaError_t error = cudaEventRecord(
        static_cast<cudaEvent_t>(record_->native()), lease_->stream);
    if (error == cudaSuccess) return absl::OkStatus();
    cudaGetLastError();
    return FieldError("memory.record_event", "an event that can be recorded",
                      cudaGetErrorString(error));
  }

  absl::Status FinishEmpty(JobReport* report) {
    if (absl::Status s = device_.Enter(); !s.ok()) return s;
    staging_.ZeroOutputs();
    WriteEmpty(*plan_, whole_->recipe(), staging_.OnHost());
    Report(ErrorSums{}, ErrorSums{}, report);
    staging_.DeliverAll();
    return staging_.MirrorToDevice(/*all=*/true, lease_->stream);
  }

  // Completes the report and the outputs on the host after the device is done.
  absl::Status Finish(JobReport* report) {
    const Recipe& recipe = whole_->recipe();
    const Findings& findings = *lease_->findings_host;
    report->saw_nan = (findings.found.seen & kSeenNan) != 0;
    report->saw_inf = (findings.found.seen & kSeenInf) != 0;
    Report(findings.sums[0], findings.sums[1], report);
    if (auto s = ReadTimes(&report->times); !s.ok()) return s;
    if (auto s = CheckFinite(recipe, report->saw_nan, report->saw_inf);
        !s.ok()) {
      return s;
    }
    WriteHistory(*plan_, recipe, staging_.OnHost());
    report->replaced_globals = WriteGlobalScales(*plan_, staging_.OnHost());
    if (slabs_.empty()) {
      staging_.DeliverAll();
    } else {
      staging_.DeliverSmall();
    }
    return staging_.MirrorToDevice(/*all=*/false, lease_->stream);
  }

  absl::Status ReadTimes(JobTimes* times) {
    const auto between = [&](Slot::Mark a, Slot::Mark b, int64_t* ns) {
      float ms = 0;
      const cudaError_t error =
          cudaEventElapsedTime(&ms, lease_->marks[a], lease_->marks[b]);
      *ns = static_cast<int64_t>(ms * 1e6);
      return CudaStatus(error, "read a time");
    };
    if (staging_.direct()) {
      return between(Slot::kStart, Slot::kDone, &times->compute_ns);
    }
    absl::Status status = between(Slot::kStart, Slot::kFed, &times->copy_in_ns);
    status.Update(between(Slot::kFed, Slot::kComputed, &times->compute_ns));
    status.Update(between(Slot::kComputed, Slot::kDone, &times->copy_out_ns));
    return status;
  }

  // Reports statistics, if they are wanted.
  void Report(const ErrorSums& rowwise, const ErrorSums& columnwise,
              JobReport* report) const {
    const Recipe& recipe = whole_->recipe();
    if (!recipe.statistics) return;
    if (recipe.copies[0].wanted) report->rowwise = rowwise.Finish();
    if (recipe.copies[1].wanted) report->columnwise = columnwise.Finish();
  }

  Device& device_;
  JobCounts& counts_;
  const std::shared_ptr<const Plan> staged_;  // the plan of `staging_`
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Kernels> whole_;
  std::unique_ptr<MaximaSearch> search_;
  std::vector<Slab> cut_;                          // instead of `whole_`
  std::vector<std::unique_ptr<SlabOfJob>> slabs_;  // queued slabs
  Staging staging_;
  const EventMapping* const record_;
  const Rht rht_;
  // Declared after all memory that its streams use, so that it is destroyed
  // first: its destructor waits for the streams.
  Device::Lease lease_;
  const cuda::Queue queue_;
  absl::Status status_;  // status of the copies of fed bytes
  size_t fed_ = 0;
  Block output_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Job>> MakeCudaJob(
    Device* device, JobCounts* counts, std::shared_ptr<const Plan> plan,
    LentMemory lent, Device::Lease* lease) {
  if (absl::Status s = device->Enter(); !s.ok()) return s;
  auto whole = std::make_unique<Kernels>(*plan, *device, lent.outputs.empty());
  const Recipe& recipe = whole->recipe();
  const EventMapping* const record = lent.record;
  absl::StatusOr<Staging> staging =
      Staging::Make(*device, *plan, std::move(lent),
                    {HostWrites(*plan, recipe), recipe.search.lines});
  if (!staging.ok()) return staging.status();
  Rht rht;
  if (const std::optional<Rotation>& use = recipe.rotation) {
    auto cached = device->GetRht(use->mask, use->dimension, use->dtype, *lease);
    if (!cached.ok()) return cached.status();
    rht = *std::move(cached);
  }
  auto job = std::make_unique<CudaJob>(
      device, counts, std::move(plan), std::move(whole), *std::move(staging),
      record, std::move(rht), std::move(*lease));
  if (absl::Status s = job->Prepare(); !s.ok()) {
    // The caller needs the lease to check whether the device still works.
    *lease = job->TakeLease();
    return s;
  }
  return job;
}

}  // namespace quantd::cuda
