// The health of a device, which decides whether it gets work: states and the
// transitions between them.
//
//   healthy      the device gets work
//   suspect      the device failed a job; it is tested at once
//   probing      the device is being tested
//   quarantined  it gave a wrong answer, failed the test or has a job that does
//                not end; it is tested again from time to time
//
// Callers report faults with Report. Only a passed test makes a device healthy
// again. A healthy device still gets work while it is tested.
//
// Threads: everything here may be used from any thread; state() takes no lock.
#ifndef QUANTD_KERNELS_DEVICE_HEALTH_DEVICE_HEALTH_H_
#define QUANTD_KERNELS_DEVICE_HEALTH_DEVICE_HEALTH_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

enum class DeviceState : uint8_t { kHealthy, kSuspect, kProbing, kQuarantined };
inline constexpr DeviceState kDeviceStates[] = {
    DeviceState::kHealthy, DeviceState::kSuspect, DeviceState::kProbing,
    DeviceState::kQuarantined};
std::string_view Name(DeviceState state);  // "healthy"

enum class DeviceFault : uint8_t {
  kError,        // a job failed that should have succeeded
  kOutOfMemory,  // the device had no memory left
  kHang,         // a job exceeded its time limit
  kWrongAnswer,  // a test's bytes were wrong
};
inline constexpr DeviceFault kDeviceFaults[] = {
    DeviceFault::kError, DeviceFault::kOutOfMemory, DeviceFault::kHang,
    DeviceFault::kWrongAnswer};
std::string_view Name(DeviceFault fault);  // "out_of_memory"

// The device fault that a job's error indicates. nullopt if the request is at
// fault (INVALID_ARGUMENT), if the device is merely full, or if it does not
// support the request (UNIMPLEMENTED).
std::optional<DeviceFault> FaultOf(const absl::Status& status);

class DeviceHealth {
 public:
  DeviceState state() const { return state_; }
  bool healthy() const { return state() == DeviceState::kHealthy; }

  // Reports a fault. Returns true if the device was healthy until now.
  bool Report(DeviceFault fault);
  // Reports that a job that was reported as hanging has ended.
  void HungJobEnded();

  // Begins a test. Returns false if the device is healthy, is being tested, or
  // has a hanging job.
  bool BeginProbe();
  // Reports that a probe, or a test of a healthy device, passed. Returns true
  // if the device has become healthy.
  bool TestPassed();
  // Reports a failed test, whose cause counts as a fault. Returns true if the
  // device was healthy until now.
  bool TestFailed(DeviceFault cause);

  uint64_t faults(DeviceFault fault) const;
  uint64_t tests_passed() const { return passed_; }
  uint64_t tests_failed() const { return failed_; }
  int hanging() const;  // jobs that hang now

 private:
  enum class Event : uint8_t { kFault, kHold, kProbe, kPass, kFail };
  static DeviceState Next(DeviceState state, Event event);
  // Makes a transition. Returns true if the state has changed.
  bool Apply(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::atomic<DeviceState> state_{DeviceState::kHealthy};
  std::array<std::atomic<uint64_t>, std::size(kDeviceFaults)> faults_ = {};
  std::atomic<uint64_t> passed_{0};
  std::atomic<uint64_t> failed_{0};
  int hanging_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_DEVICE_HEALTH_H_
