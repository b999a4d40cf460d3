#include "server/device/device_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/device/health/self_test.h"
#include "server/gate/gate.h"
#include "server/gate/steady_time.h"
#include "server/observe/health.h"
#include "server/observe/log.h"

namespace quantd {

// A device, and its self-test as work for its own workers. Guarded by the
// monitor's lock.
class DeviceMonitor::Watched : public Engine::Work {
 public:
  enum class Stage { kIdle, kQueued, kRunning, kDone };

  explicit Watched(DeviceMonitor* monitor) : monitor_(monitor) {}

  void RunOn(Backend& backend, Engine::SlotLease slot) override {
    {
      absl::MutexLock lock(&monitor_->mutex_);
      stage = Stage::kRunning;
      since = monitor_->settings_.now();
    }
    absl::Status result = SelfTest(backend);
    slot.Reset();
    absl::MutexLock lock(&monitor_->mutex_);
    status = std::move(result);
    stage = Stage::kDone;
  }

  // State of the test.
  Stage stage = Stage::kIdle;
  bool hung = false;  // the test hangs, and that was reported
  bool first = true;  // no test has been done yet
  absl::Time since;   // start of the running test
  absl::Status status;

  bool doubted = false;  // has a fault that no test has confirmed yet
  bool abandon = false;  // calls queued for it must be told
  absl::Time lost_at = absl::InfinitePast();
  absl::Time next_test = absl::InfinitePast();
  absl::Duration pause = absl::ZeroDuration();  // before the next probe

 private:
  DeviceMonitor* const monitor_;
};

DeviceMonitor::DeviceMonitor(Engine* engine, Gate* gate, HealthService* health,
                             Settings settings)
    : engine_(engine),
      gate_(gate),
      health_(health),
      settings_(std::move(settings)) {
  for (size_t i = 0; i < engine->size(); ++i) {
    devices_.push_back(std::make_unique<Watched>(this));
  }
}

DeviceMonitor::~DeviceMonitor() = default;

bool DeviceMonitor::Await(absl::Duration patience,
                          bool (*condition)(const Watched& device)) {
  const absl::Time end = SteadyNow() + patience;
  while (true) {
    Look(settings_.now());
    {
      absl::MutexLock lock(&mutex_);
      if (std::all_of(devices_.begin(), devices_.end(),
                      [&](const auto& d) { return condition(*d); })) {
        return true;
      }
    }
    if (SteadyNow() >= end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

void DeviceMonitor::Start() {
  {
    absl::MutexLock lock(&mutex_);
    Tell();
  }
  Await(absl::InfiniteDuration(),
        [](const Watched& d) { return !d.first || d.hung; });
}

bool DeviceMonitor::Stop(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (size_t i = 0; i < devices_.size(); ++i) {
      Watched& d = *devices_[i];
      if (d.stage == Watched::Stage::kQueued && engine_->Withdraw(i, &d)) {
        d.stage = Watched::Stage::kIdle;
      }
    }
  }
  return Await(patience, [](const Watched& d) {
    return d.stage == Watched::Stage::kIdle || d.stage == Watched::Stage::kDone;
  });
}

void DeviceMonitor::Report(int device, DeviceFault fault,
                           std::string_view detail,
                           std::string_view request_id) {
  absl::MutexLock lock(&mutex_);
  if (engine_->health(device).Report(fault)) {
    Lost(device, fault, detail, request_id);
  } else if (fault == DeviceFault::kHang &&
             std::exchange(devices_[device]->doubted, false)) {
    Tell();
  }
}

void DeviceMonitor::HungJobEnded(int device) {
  engine_->health(device).HungJobEnded();
  absl::MutexLock lock(&mutex_);
  // The hanging job is gone, so the device is tested now.
  devices_[device]->next_test = absl::InfinitePast();
}

void DeviceMonitor::Lost(int device, DeviceFault fault, std::string_view detail,
                         std::string_view request_id) {
  Watched& d = *devices_[device];
  d.abandon = true;
  d.doubted = engine_->health(device).state() != DeviceState::kQuarantined;
  d.lost_at = settings_.now();
  d.next_test = absl::InfinitePast();
  d.pause = kSoonestRetry;
  Log(LogLevel::kError, "device_lost",
      {{"device", engine_->backend(device).info().name},
       {"fault", Name(fault)},
       {"state", Name(engine_->health(device).state())},
       {"detail", detail},
       {"request_id", request_id}});
  Tell();
}

void DeviceMonitor::Tell() {
  using Availability = Gate::Availability;
  std::vector<Availability> available(devices_.size(), Availability::kLost);
  bool any = false;
  bool soon = false;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (static_cast<int>(i) == settings_.fallback) continue;
    if (engine_->health(i).healthy()) {
      available[i] = Availability::kTakesWork;
      any = true;
    } else if (devices_[i]->doubted) {
      available[i] = Availability::kSoon;
      soon = true;
    }
  }
  if (settings_.fallback >= 0 && !any &&
      engine_->health(settings_.fallback).healthy()) {
    available[settings_.fallback] = Availability::kTakesWork;
    any = true;
  }
  any |= soon;
  none_since_ =
      any ? absl::InfiniteFuture() : std::min(none_since_, settings_.now());
  takes_work_ = any;
  gate_->SetAvailable(std::move(available));
  health_->SetDevices(any);
}

int DeviceMonitor::hanging() const {
  int jobs = 0;
  for (size_t i = 0; i < engine_->size(); ++i) {
    jobs += engine_->health(i).hanging();
  }
  return jobs;
}

absl::Duration DeviceMonitor::RetryDelay() const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = settings_.now();
  absl::Duration least = kLatestRetry;
  for (size_t i = 0; i < devices_.size(); ++i) {
    // The device has recovered since the call was refused, so it does not
    // matter that its next test is minutes away.
    if (engine_->health(i).healthy()) return kSoonestRetry;
    if (engine_->health(i).hanging() != 0) continue;
    least = std::min(least, devices_[i]->next_test - now);
  }
  return std::max(least, kSoonestRetry);
}

void DeviceMonitor::Judge(int device, absl::Time now) {
  Watched& d = *devices_[device];
  DeviceHealth& health = engine_->health(device);
  d.stage = Watched::Stage::kIdle;
  d.first = false;
  if (std::exchange(d.hung, false)) health.HungJobEnded();
  const std::string& name = engine_->backend(device).info().name;
  if (d.status.ok()) {
    d.next_test = now + settings_.self_test_interval;
    d.doubted = false;
    if (!health.TestPassed()) return;
    Log(LogLevel::kInfo, "device_recovered",
        {{"device", name},
         {"lost_ms", absl::ToInt64Milliseconds(now - d.lost_at)}});
    Tell();
    return;
  }
  const std::string detail(d.status.message());
  const DeviceFault cause =
      absl::IsDataLoss(d.status)
          ? DeviceFault::kWrongAnswer
          : FaultOf(d.status).value_or(DeviceFault::kError);
  if (health.TestFailed(cause)) {
    Lost(device, cause, detail, "");
  } else if (std::exchange(d.doubted, false)) {
    Tell();
  }
  d.next_test = now + d.pause;
  d.pause = std::min(2 * d.pause, kLatestRetry);
  Log(LogLevel::kWarn, "self_test_failed",
      {{"device", name},
       {"detail", detail},
       {"next_ms", absl::ToInt64Milliseconds(d.next_test - now)}});
}

void DeviceMonitor::LookAt(int device, absl::Time now) {
  Watched& d = *devices_[device];
  DeviceHealth& health = engine_->health(device);
  if (d.stage == Watched::Stage::kDone) Judge(device, now);
  if (d.stage == Watched::Stage::kRunning && !d.hung &&
      now - d.since >= settings_.test_limit) {
    d.hung = true;
    if (health.Report(DeviceFault::kHang)) {
      Lost(device, DeviceFault::kHang, "its self-test does not end", "");
    } else if (std::exchange(d.doubted, false)) {
      Tell();
    }
  }
  if (d.stage != Watched::Stage::kIdle || now < d.next_test) return;
  if (!health.healthy() && !health.BeginProbe()) return;
  d.stage = Watched::Stage::kQueued;
  engine_->Submit(device, &d);
}

void DeviceMonitor::Look(absl::Time now) {
  std::vector<int> lost;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    if (!hopeless_ && now >= none_since_ + settings_.most_without) {
      hopeless_ = true;
      Log(LogLevel::kError, "no_device_left", {});
      if (settings_.on_hopeless) settings_.on_hopeless();
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      LookAt(i, now);
      if (std::exchange(devices_[i]->abandon, false)) lost.push_back(i);
    }
  }
  // Without the lock: calls that lose their device ask the gate, and perhaps
  // this monitor, for another one.
  for (const int device : lost) engine_->Abandon(device);
}

}  // namespace quantd
