// Whether a device may be given work: its states, and what leads from one to
// another.
//
//   healthy      takes work
//   suspect      a job failed for the device's sake; to be tested at once
//   probing      under test
//   quarantined  gave a wrong answer, failed the test or holds a job that does
//                not end; tested again from time to time
//
// A fault is told with Report; only a test that was passed makes a device
// healthy again. A healthy device keeps taking work while it is
// tested.
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
  kError,        // a job failed that should not have
  kOutOfMemory,  // the device had no memory left
  kHang,         // a job took longer than any may
  kWrongAnswer,  // a test's bytes were not the known ones
};
inline constexpr DeviceFault kDeviceFaults[] = {
    DeviceFault::kError, DeviceFault::kOutOfMemory, DeviceFault::kHang,
    DeviceFault::kWrongAnswer};
std::string_view Name(DeviceFault fault);  // "out_of_memory"

// What the error of a job says of the device: nothing where the request is at
// fault (INVALID_ARGUMENT), where the device is merely full, or where it is
// asked for what it does not do (UNIMPLEMENTED).
std::optional<DeviceFault> FaultOf(const absl::Status& status);

class DeviceHealth {
 public:
  DeviceState state() const { return state_; }
  bool healthy() const { return state() == DeviceState::kHealthy; }

  // True: the device was healthy until now.
  bool Report(DeviceFault fault);
  // A job that a hang was reported of has ended after all.
  void HungJobEnded();

  // False while it is healthy, under test, or holds a job that hangs.
  bool BeginProbe();
  // A probe, or a test of a healthy device, was passed. True: the device has
  // become healthy.
  bool TestPassed();
  // Its cause is counted as a fault. True: the device was healthy until now.
  bool TestFailed(DeviceFault cause);

  uint64_t faults(DeviceFault fault) const;
  uint64_t tests_passed() const { return passed_; }
  uint64_t tests_failed() const { return failed_; }
  int hanging() const;  // jobs that hang now

 private:
  enum class Event : uint8_t { kFault, kHold, kProbe, kPass, kFail };
  static DeviceState Next(DeviceState state, Event event);
  // True: the state is another now.
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
