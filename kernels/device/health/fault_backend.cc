#include "kernels/device/health/fault_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "fmt/format.h"
#include "kernels/device/out_of_memory.h"

namespace quantd {

void FaultControl::Arrange(std::vector<InjectedFault> faults) {
  absl::MutexLock lock(&mutex_);
  planned_ = std::move(faults);
}

void FaultControl::Next(InjectedFault::Kind kind, absl::Duration length) {
  absl::MutexLock lock(&mutex_);
  planned_ = {{kind, jobs_ + 1, length}};
}

void FaultControl::Heal() {
  absl::MutexLock lock(&mutex_);
  ++heals_;
  planned_.clear();
  sticky_until_ = empty_until_ = wrong_until_ = absl::InfinitePast();
}

uint64_t FaultControl::jobs() const {
  absl::MutexLock lock(&mutex_);
  return jobs_;
}

int FaultControl::hanging() const {
  absl::MutexLock lock(&mutex_);
  return hanging_;
}

bool FaultControl::broken() const {
  absl::MutexLock lock(&mutex_);
  return absl::Now() < sticky_until_;
}

FaultControl::Verdict FaultControl::BeginJob() {
  absl::MutexLock lock(&mutex_);
  ++jobs_;
  const absl::Time now = absl::Now();
  Verdict verdict;
  for (const InjectedFault& fault : planned_) {
    if (fault.job != jobs_) continue;
    switch (fault.kind) {
      case InjectedFault::kSticky:
        verdict.fails = true;
        sticky_until_ = now + fault.length;
        break;
      case InjectedFault::kOnce:
        verdict.fails = true;
        break;
      case InjectedFault::kHang:
        verdict.hangs = true;
        verdict.hang = fault.length;
        break;
      case InjectedFault::kOutOfMemory:
        verdict.out_of_memory = true;
        empty_until_ = now + fault.length;
        break;
      case InjectedFault::kWrong:
        verdict.wrong = true;
        wrong_until_ = now + fault.length;
        break;
    }
  }
  verdict.fails |= now < sticky_until_;
  verdict.out_of_memory |= now < empty_until_;
  verdict.wrong |= now < wrong_until_;
  return verdict;
}

void FaultControl::Hang(absl::Duration length) {
  absl::MutexLock lock(&mutex_);
  ++hanging_;
  const auto healed = [this, before = heals_]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                          mutex_) { return heals_ != before; };
  mutex_.AwaitWithTimeout(absl::Condition(&healed), length);
  --hanging_;
}

namespace {

absl::Status Broken(const std::string& name) {
  return absl::UnavailableError(name + ": a fault was injected");
}

void FlipABit(absl::Span<std::byte> bytes) {
  if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{1};
}

// The bytes of an output's first tensor. Tests do not check the bytes between
// tensors.
absl::Span<std::byte> FirstTensor(const Plan& plan, absl::Span<std::byte> out) {
  if (plan.outputs().empty()) return {};
  const TensorSpec& first = plan.outputs().front();
  return out.subspan(first.offset, first.size);
}

}  // namespace

class FaultJob : public Job {
 public:
  FaultJob(std::unique_ptr<Job> inner, std::string name,
           std::shared_ptr<FaultControl> control,
           const FaultControl::Verdict& verdict,
           std::vector<absl::Span<std::byte>> outputs,
           std::shared_ptr<const Plan> plan)
      : inner_(std::move(inner)),
        name_(std::move(name)),
        control_(std::move(control)),
        verdict_(verdict),
        outputs_(std::move(outputs)),
        plan_(std::move(plan)) {}

  absl::Span<std::byte> staging() override { return inner_->staging(); }
  void Fed(size_t n) override { inner_->Fed(n); }
  absl::StatusOr<FoundMaxima> FindMaxima() override {
    if (verdict_.hangs) control_->Hang(verdict_.hang);
    if (verdict_.fails) return Broken(name_);
    return inner_->FindMaxima();
  }
  absl::Status Settle(std::shared_ptr<const Plan> plan) override {
    return inner_->Settle(std::move(plan));
  }
  void CountPieces(std::atomic<uint64_t>* pieces) override {
    inner_->CountPieces(pieces);
  }
  absl::StatusOr<JobReport> Run() override {
    if (verdict_.hangs) control_->Hang(verdict_.hang);
    if (verdict_.fails) return Broken(name_);
    auto report = inner_->Run();
    if (report.ok() && verdict_.wrong && !outputs_.empty()) {
      FlipABit(outputs_.front());
    }
    return report;
  }
  Block TakeOutput() override {
    Block block = inner_->TakeOutput();
    if (verdict_.wrong && block.size() > 0) {
      FlipABit(FirstTensor(*plan_, block.bytes()));
    }
    return block;
  }

 private:
  const std::unique_ptr<Job> inner_;
  const std::string name_;
  const std::shared_ptr<FaultControl> control_;
  const FaultControl::Verdict verdict_;
  const std::vector<absl::Span<std::byte>> outputs_;
  const std::shared_ptr<const Plan> plan_;
};

class FaultBackend : public Backend {
 public:
  FaultBackend(std::string name, std::unique_ptr<Backend> inner,
               std::shared_ptr<FaultControl> control)
      : inner_(std::move(inner)),
        info_(inner_->info()),
        control_(std::move(control)) {
    info_.name = std::move(name);
    info_.description += ", fails on purpose";
  }

  const BackendInfo& info() const override { return info_; }
  BackendStats stats() const override {
    BackendStats stats = inner_->stats();
    stats.healthy &= !control_->broken();
    return stats;
  }
  absl::StatusOr<std::unique_ptr<Job>> Begin(std::shared_ptr<const Plan> plan,
                                             LentMemory lent) override {
    // A device context that has faulted fails at once.
    if (control_->broken()) return Broken(info_.name);
    const FaultControl::Verdict verdict = control_->BeginJob();
    if (verdict.out_of_memory) {
      return OutOfMemoryError(info_.name + ": exhaustion was injected");
    }
    std::vector<absl::Span<std::byte>> outputs = lent.outputs;
    auto job = inner_->Begin(plan, std::move(lent));
    if (!job.ok()) return job.status();
    return std::make_unique<FaultJob>(*std::move(job), info_.name, control_,
                                      verdict, std::move(outputs),
                                      std::move(plan));
  }
  size_t PoolBytes(const Plan& plan, const LentMemory& lent) const override {
    return inner_->PoolBytes(plan, lent);
  }

 private:
  const std::unique_ptr<Backend> inner_;
  BackendInfo info_;
  const std::shared_ptr<FaultControl> control_;
};

std::unique_ptr<Backend> MakeFaultBackend(
    std::string name, std::unique_ptr<Backend> inner,
    std::shared_ptr<FaultControl> control) {
  return std::make_unique<FaultBackend>(std::move(name), std::move(inner),
                                        std::move(control));
}

namespace {

absl::StatusOr<InjectedFault> ParseFault(std::string_view text) {
  constexpr std::pair<std::string_view, InjectedFault::Kind> kKinds[] = {
      {"sticky", InjectedFault::kSticky},
      {"once", InjectedFault::kOnce},
      {"hang", InjectedFault::kHang},
      {"oom", InjectedFault::kOutOfMemory},
      {"wrong", InjectedFault::kWrong}};
  const absl::Status refusal = absl::InvalidArgumentError(fmt::format(
      "fault '{}': expected sticky, once, hang, oom or wrong, then @JOB, then "
      "/MILLISECONDS if it is to end",
      text));
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(std::string(text), absl::MaxSplits('@', 1));
  InjectedFault fault;
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const auto& row) { return row.first == parts.first; });
  if (kind == std::end(kKinds)) return refusal;
  fault.kind = kind->second;
  const std::vector<std::string> numbers = absl::StrSplit(parts.second, '/');
  int64_t milliseconds = 0;
  if (numbers.size() > 2 || !absl::SimpleAtoi(numbers[0], &fault.job) ||
      fault.job == 0) {
    return refusal;
  }
  if (numbers.size() == 2) {
    if (!absl::SimpleAtoi(numbers[1], &milliseconds) || milliseconds < 0) {
      return refusal;
    }
    fault.length = absl::Milliseconds(milliseconds);
  }
  return fault;
}

}  // namespace

absl::StatusOr<FaultDevice> ParseFaultDevice(std::string_view text) {
  std::vector<std::string> parts = absl::StrSplit(std::string(text), ':');
  uint32_t ordinal = 0;
  // The parts: "fault", kind, ordinal, faults.
  if (parts.size() < 3 || parts.size() > 4 || parts[0] != "fault" ||
      (parts[1] != "cpu" && parts[1] != "cuda") ||
      !absl::SimpleAtoi(parts[2], &ordinal)) {
    return absl::InvalidArgumentError(fmt::format(
        "device '{}': expected fault:cpu:N or fault:cuda:N, then :FAULT+FAULT",
        text));
  }
  FaultDevice device;
  device.inner = fmt::format("{}:{}", parts[1], ordinal);
  device.name = "fault:" + device.inner;
  if (parts.size() < 4) return device;
  const std::vector<std::string> faults = absl::StrSplit(parts[3], '+');
  for (const std::string& each : faults) {
    auto fault = ParseFault(each);
    if (!fault.ok()) return fault.status();
    device.faults.push_back(*fault);
  }
  return device;
}

}  // namespace quantd
