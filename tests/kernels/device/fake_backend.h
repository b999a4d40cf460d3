// A device whose jobs wait until a test lets them run, so that a test can stop
// a call at a certain stage.
#ifndef QUANTD_TESTS_KERNELS_DEVICE_FAKE_BACKEND_H_
#define QUANTD_TESTS_KERNELS_DEVICE_FAKE_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "kernels/device/backend.h"

namespace quantd {

// State shared by a fake device and its test. Must outlive the device.
class FakeControl {
 public:
  // While the device is closed, FindMaxima and Run wait. It starts open.
  void Close() {
    absl::MutexLock lock(&mutex_);
    open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  // Makes each job inside FindMaxima or Run count another piece of its work.
  void Step() {
    absl::MutexLock lock(&mutex_);
    for (std::atomic<uint64_t>* pieces : counted_) ++*pieces;
  }
  // Sets the status that FindMaxima and Run return from now on.
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    status_ = std::move(status);
  }
  // Sets the times that every Run reports from now on.
  void Report(const JobTimes& times) {
    absl::MutexLock lock(&mutex_);
    times_ = times;
  }
  void SetHealthy(bool healthy) {
    absl::MutexLock lock(&mutex_);
    healthy_ = healthy;
  }
  // Waits until that many jobs are inside FindMaxima or Run. Returns false
  // after a minute.
  bool AwaitRunning(int jobs) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&] { return running_ == jobs; };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Minutes(1));
  }
  int begun() {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }

 private:
  friend class FakeJob;
  friend class FakeBackend;
  absl::Status Enter(std::atomic<uint64_t>* pieces) {
    absl::MutexLock lock(&mutex_);
    ++running_;
    if (pieces != nullptr) counted_.push_back(pieces);
    mutex_.Await(absl::Condition(&open_));
    std::erase(counted_, pieces);
    --running_;
    return status_;
  }

  absl::Mutex mutex_;
  bool open_ = true;
  int running_ = 0;
  std::vector<std::atomic<uint64_t>*> counted_;
  int begun_ = 0;
  absl::Status status_;
  JobTimes times_;
  bool healthy_ = true;
};

class FakeJob : public Job {
 public:
  FakeJob(FakeControl* control, std::shared_ptr<const Plan> plan, Block in,
          Block out)
      : control_(control),
        plan_(std::move(plan)),
        in_(std::move(in)),
        out_(std::move(out)) {}
  absl::Span<std::byte> staging() override { return in_.bytes(); }
  void Fed(size_t) override {}
  void CountPieces(std::atomic<uint64_t>* pieces) override { pieces_ = pieces; }
  absl::StatusOr<FoundMaxima> FindMaxima() override {
    if (absl::Status s = control_->Enter(pieces_); !s.ok()) return s;
    return FoundMaxima{NoMaxima(*plan_)};
  }
  absl::Status Settle(std::shared_ptr<const Plan> plan) override {
    plan_ = std::move(plan);
    return absl::OkStatus();
  }
  absl::StatusOr<JobReport> Run() override {
    if (absl::Status s = control_->Enter(pieces_); !s.ok()) return s;
    if (out_.size() != 0) std::memset(out_.data(), 0x5a, out_.size());
    JobReport report;
    absl::MutexLock lock(&control_->mutex_);
    report.times = control_->times_;
    return report;
  }
  Block TakeOutput() override { return std::move(out_); }

 private:
  FakeControl* const control_;
  std::shared_ptr<const Plan> plan_;
  Block in_;
  Block out_;
  std::atomic<uint64_t>* pieces_ = nullptr;
};

class FakeBackend : public Backend {
 public:
  FakeBackend(FakeControl* control, std::string name, int slots,
              size_t memory_limit)
      : control_(control),
        pool_(BlockPool::Create(PageableSource(), memory_limit)) {
    info_.name = std::move(name);
    info_.kind = "fake";
    info_.computes = false;
    info_.slots = slots;
    info_.feeding = 4;
    info_.memory_limit = memory_limit;
  }

  const BackendInfo& info() const override { return info_; }
  BackendStats stats() const override {
    BackendStats stats;
    stats.jobs = static_cast<uint64_t>(control_->begun());
    stats.pool_high_water = pool_->high_water();
    absl::MutexLock lock(&control_->mutex_);
    stats.healthy = control_->healthy_;
    return stats;
  }
  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan,
                                             LentMemory) override {
    absl::StatusOr<Block> in = pool_->Take(plan->input_bytes());
    if (!in.ok()) return in.status();
    absl::StatusOr<Block> out = pool_->Take(plan->output_bytes());
    if (!out.ok()) return out.status();
    absl::MutexLock lock(&control_->mutex_);
    ++control_->begun_;
    return std::make_unique<FakeJob>(control_, std::move(plan), *std::move(in),
                                     *std::move(out));
  }

 private:
  FakeControl* const control_;
  const std::shared_ptr<BlockPool> pool_;
  BackendInfo info_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_DEVICE_FAKE_BACKEND_H_
