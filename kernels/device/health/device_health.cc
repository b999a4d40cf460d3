#include "kernels/device/health/device_health.h"

#include "kernels/device/out_of_memory.h"

namespace quantd {

std::string_view Name(DeviceState state) {
  switch (state) {
    case DeviceState::kHealthy:
      return "healthy";
    case DeviceState::kSuspect:
      return "suspect";
    case DeviceState::kProbing:
      return "probing";
    case DeviceState::kQuarantined:
      return "quarantined";
  }
  return "";
}

std::string_view Name(DeviceFault fault) {
  switch (fault) {
    case DeviceFault::kError:
      return "error";
    case DeviceFault::kOutOfMemory:
      return "out_of_memory";
    case DeviceFault::kHang:
      return "hang";
    case DeviceFault::kWrongAnswer:
      return "wrong_answer";
  }
  return "";
}

std::optional<DeviceFault> FaultOf(const absl::Status& status) {
  if (IsOutOfMemory(status)) return DeviceFault::kOutOfMemory;
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return std::nullopt;
    default:
      return DeviceFault::kError;
  }
}

// Transitions: a row for each state, a column for each event.
DeviceState DeviceHealth::Next(DeviceState state, Event event) {
  constexpr DeviceState kH = DeviceState::kHealthy;
  constexpr DeviceState kS = DeviceState::kSuspect;
  constexpr DeviceState kP = DeviceState::kProbing;
  constexpr DeviceState kQ = DeviceState::kQuarantined;
  static constexpr DeviceState kTable[4][5] = {
      // fault, hold, probe, pass, fail
      {kS, kQ, kH, kH, kQ},  // healthy
      {kS, kQ, kP, kS, kQ},  // suspect
      {kP, kQ, kP, kH, kQ},  // probing; waits for the test
      {kQ, kQ, kP, kQ, kQ},  // quarantined
  };
  return kTable[static_cast<int>(state)][static_cast<int>(event)];
}

bool DeviceHealth::Apply(Event event) {
  const DeviceState before = state_;
  state_ = Next(before, event);
  return state_ != before;
}

bool DeviceHealth::Report(DeviceFault fault) {
  absl::MutexLock lock(&mutex_);
  ++faults_[static_cast<int>(fault)];
  const bool was_healthy = healthy();
  if (fault == DeviceFault::kHang) ++hanging_;
  Apply(fault == DeviceFault::kHang || fault == DeviceFault::kWrongAnswer
            ? Event::kHold
            : Event::kFault);
  return was_healthy;
}

void DeviceHealth::HungJobEnded() {
  absl::MutexLock lock(&mutex_);
  --hanging_;
}

bool DeviceHealth::BeginProbe() {
  absl::MutexLock lock(&mutex_);
  return hanging_ == 0 && Apply(Event::kProbe);
}

bool DeviceHealth::TestPassed() {
  absl::MutexLock lock(&mutex_);
  ++passed_;
  return Apply(Event::kPass);
}

bool DeviceHealth::TestFailed(DeviceFault cause) {
  absl::MutexLock lock(&mutex_);
  ++failed_;
  ++faults_[static_cast<int>(cause)];
  const bool was_healthy = healthy();
  Apply(Event::kFail);
  return was_healthy;
}

uint64_t DeviceHealth::faults(DeviceFault fault) const {
  return faults_[static_cast<int>(fault)];
}

int DeviceHealth::hanging() const {
  absl::MutexLock lock(&mutex_);
  return hanging_;
}

}  // namespace quantd
