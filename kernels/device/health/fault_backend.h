// A device that fails on purpose, for tests and drills: another device's jobs,
// of which some go wrong as a broken GPU's would.
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
    kSticky,       // this job and all from then on fail, as after a fault of
                   // the device's context
    kOnce,         // this job fails
    kHang,         // this job does not end
    kOutOfMemory,  // this job finds no memory on the device
    kWrong,        // one bit of this job's output is another
  };
  Kind kind = kOnce;
  uint64_t job = 1;  // which; jobs are counted from 1, those of self-tests, too
  // How long it lasts: a sticky one, a hang, or that every job in that time
  // finds no memory or is wrong. For ever unless said; a fault of one job has
  // no length.
  absl::Duration length = absl::InfiniteDuration();
};

// What a device that fails on purpose and its test share. Outlives the device.
class FaultControl {
 public:
  // Plans faults of jobs to come. Replaces what was planned.
  void Arrange(std::vector<InjectedFault> faults);
  // Plans a fault of the next job, whatever its number.
  void Next(InjectedFault::Kind kind,
            absl::Duration length = absl::InfiniteDuration());
  // Ends what lasts: the device is well, jobs that hang go on.
  void Heal();
  uint64_t jobs() const;
  // Jobs that hang now.
  int hanging() const;

 private:
  friend class FaultBackend;
  friend class FaultJob;
  // What happens to the job that begins now.
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
  // Until when a fault lasts.
  absl::Time sticky_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time empty_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time wrong_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// The device's name is `name`; all else is told of `inner`.
std::unique_ptr<Backend> MakeFaultBackend(
    std::string name, std::unique_ptr<Backend> inner,
    std::shared_ptr<FaultControl> control);

// "fault:cpu:1:sticky@20/500+once@3" is cpu:1 under the name "fault:cpu:1"; of
// its jobs the 20th and all for half a second fail, and the third.
struct FaultDevice {
  std::string inner;  // "cpu:1"
  std::string name;   // "fault:cpu:1"
  std::vector<InjectedFault> faults;
};
// INVALID_ARGUMENT for another text.
absl::StatusOr<FaultDevice> ParseFaultDevice(std::string_view text);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_FAULT_BACKEND_H_
