// A device that fails on purpose, for tests of failures. It runs jobs on
// another device and makes some of them fail as a broken GPU would.
#ifndef QUANTD_KERNELS_DEVICE_HEALTH_FAULT_BACKEND_H_
#define QUANTD_KERNELS_DEVICE_HEALTH_FAULT_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/device/backend.h"

namespace quantd {

struct InjectedFault {
  enum Kind {
    kSticky,       // this job and all later ones fail, as after a fault of the
                   // device's context
    kOnce,         // this job fails
    kHang,         // this job hangs
    kOutOfMemory,  // the device has no memory from this job on
    kWrong,        // from this job on, one bit of each output is wrong
  };
  Kind kind = kOnce;
  uint64_t job = 1;  // number of the job, from 1; those of self-tests count,
                     // too
  // The duration of a sticky fault or a hang, or of the period in which every
  // job finds no memory or is wrong. A fault of a single job ignores it.
  absl::Duration length = absl::InfiniteDuration();
};

// The state that a failing device shares with its test. Must outlive the
// device.
class FaultControl {
 public:
  // Plans faults of future jobs, and discards all faults planned before.
  void Arrange(std::vector<InjectedFault> faults);
  // Plans a fault of the next job, whatever its number.
  void Next(InjectedFault::Kind kind,
            absl::Duration length = absl::InfiniteDuration());
  // Ends lasting faults. The device works again, and hanging jobs continue.
  void Heal();
  uint64_t jobs() const;
  // The number of jobs that hang now.
  int hanging() const;

 private:
  friend class FaultBackend;
  friend class FaultJob;
  // The fate of the job that begins now.
  struct Verdict {
    bool fails = false;
    bool hangs = false;
    bool out_of_memory = false;
    bool wrong = false;
    absl::Duration hang = absl::InfiniteDuration();
  };
  Verdict BeginJob();
  void Hang(absl::Duration length);
  bool broken() const;

  mutable absl::Mutex mutex_;
  std::vector<InjectedFault> planned_ ABSL_GUARDED_BY(mutex_);
  uint64_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t heals_ ABSL_GUARDED_BY(mutex_) = 0;
  int hanging_ ABSL_GUARDED_BY(mutex_) = 0;
  // The end of each lasting fault.
  absl::Time sticky_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time empty_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time wrong_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Makes a failing device named `name`. All other properties are those of
// `inner`.
std::unique_ptr<Backend> MakeFaultBackend(
    std::string name, std::unique_ptr<Backend> inner,
    std::shared_ptr<FaultControl> control);

// The parsed name of a failing device. "fault:cpu:1:sticky@20/500+once@3" is
// the device cpu:1 under the name "fault:cpu:1". All its jobs from the 20th on
// fail for half a second, and its third job fails.
struct FaultDevice {
  std::string inner;  // "cpu:1"
  std::string name;   // "fault:cpu:1"
  std::vector<InjectedFault> faults;
};
// Parses the name of a failing device. INVALID_ARGUMENT for any other text.
absl::StatusOr<FaultDevice> ParseFaultDevice(std::string_view text);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_FAULT_BACKEND_H_
