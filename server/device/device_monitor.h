// Monitors the devices: takes a faulty one out of use at once, tests it until
// it works again, and tests working ones periodically.
//
// A device takes work while it is healthy; the fallback takes work only while
// no other device does. The gate grants payload memory only on devices that
// take work, and calls queued for a lost device are sent to another. A test
// confirms a fault within some milliseconds. Until then calls wait for the
// device if there is no other, and health says SERVING.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_DEVICE_DEVICE_MONITOR_H_
#define QUANTD_SERVER_DEVICE_DEVICE_MONITOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/device/engine.h"
#include "server/gate/steady_time.h"

namespace quantd {

class HealthService;
class Gate;

class DeviceMonitor {
 public:
  struct Settings {
    // Time between tests of a healthy device; infinite: only the first test.
    absl::Duration self_test_interval = absl::Minutes(5);
    // How long a test may take before it counts as a hang.
    absl::Duration test_limit = absl::Seconds(30);
    // The device that takes work only while no other does; -1: none.
    int fallback = -1;
    // Time without a device after which `on_hopeless` is called, once.
    absl::Duration most_without = absl::InfiniteDuration();
    std::function<void()> on_hopeless = {};
    // The clock of all times here.
    std::function<absl::Time()> now = SteadyNow;
  };

  DeviceMonitor(Engine* engine, Gate* gate, HealthService* health,
                Settings settings);
  // Stop must have been called and returned true.
  ~DeviceMonitor();

  // Tests every device. Returns when each test has ended or is found to hang.
  void Start();
  // Must be called periodically, from one thread: starts and judges tests, and
  // sends calls away from lost devices.
  void Look(absl::Time now);
  // Starts no more tests. Returns false if a running one does not end within
  // `patience`.
  bool Stop(absl::Duration patience);

  // Reports that a job failed because of the device, or hangs. `detail` is for
  // the log.
  void Report(int device, DeviceFault fault, std::string_view detail,
              std::string_view request_id);
  // A job reported as hanging has ended after all.
  void HungJobEnded(int device);

  // Whether any device takes work or may do so soon.
  bool takes_work() const { return takes_work_; }
  // Number of jobs that hang, on all devices.
  int hanging() const;
  // Time until a device may work again.
  absl::Duration RetryDelay() const;

 private:
  class Watched;

  // Waits until the condition is true of every device's test. Returns false if
  // `patience` passes first.
  bool Await(absl::Duration patience, bool (*condition)(const Watched& device));
  void LookAt(int device, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Judge(int device, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lost(int device, DeviceFault fault, std::string_view detail,
            std::string_view request_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the gate which devices take work, and health whether any does.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine* const engine_;
  Gate* const gate_;
  HealthService* const health_;
  const Settings settings_;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Watched>> devices_ ABSL_GUARDED_BY(mutex_);
  absl::Time none_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool hopeless_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> takes_work_{true};
};

}  // namespace quantd

#endif  // QUANTD_SERVER_DEVICE_DEVICE_MONITOR_H_
