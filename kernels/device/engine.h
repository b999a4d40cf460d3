// The engine: the devices, their slots and the threads that run jobs on them.
//
// A slot is the right to have one job alive on a device. Each device has as
// many workers as slots and one queue, first come first served. A short job
// may also take a free slot and run on the caller's own thread. A job whose
// input is on its way waits beside the slots, so that a slow sender takes none;
// how many there are is the caller's affair.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_KERNELS_DEVICE_ENGINE_H_
#define QUANTD_KERNELS_DEVICE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/device/backend.h"
#include "kernels/device/health/device_health.h"

namespace quantd {

class Engine {
 private:
  struct Device;

 public:
  // Owns one slot; gives it back on destruction. Move-only.
  class SlotLease {
   public:
    SlotLease() = default;
    SlotLease(SlotLease&& other) noexcept
        : device_(std::exchange(other.device_, nullptr)) {}
    SlotLease& operator=(SlotLease&& other) noexcept;
    ~SlotLease() { Reset(); }
    explicit operator bool() const { return device_ != nullptr; }
    void Reset();

   private:
    friend class Engine;
    explicit SlotLease(Device* device) : device_(device) {}
    Device* device_ = nullptr;
  };

  // What a worker runs, once, unless Withdraw said true.
  class Work {
   public:
    virtual ~Work() = default;
    virtual void RunOn(Backend& backend, SlotLease slot) = 0;
    // Called in its place if the device is given up while the work is queued.
    // Work that knows of no other device may leave it where it is.
    virtual bool LeavesLostDevice() const { return false; }
    virtual void OnDeviceLost() {}
  };

  // At least one backend. A worker that has done its work looks for more, again
  // and again, for `busy_poll` before it sleeps: to be woken takes an idle core
  // longer than many a job.
  explicit Engine(std::vector<std::unique_ptr<Backend>> backends,
                  std::chrono::microseconds busy_poll = {});
  // Waits for running work. Nothing may be queued.
  ~Engine();

  size_t size() const { return devices_.size(); }
  // The backend of that name; -1: there is none.
  int Find(std::string_view name) const;
  Backend& backend(int device) { return *devices_[device]->backend; }
  const Backend& backend(int device) const {
    return *devices_[device]->backend;
  }
  // For callers that choose a device: jobs run on any that they are given.
  DeviceHealth& health(int device) { return devices_[device]->health; }
  const DeviceHealth& health(int device) const {
    return devices_[device]->health;
  }

  // A slot that is free now and that no call waits for, else an empty lease.
  SlotLease TrySlot(int device);
  // Whether a job of that many input bytes is worth no hand-off to a worker.
  static bool RunsInline(size_t input_bytes);

  struct Load {
    int slots = 0;
    int busy = 0;       // slots that are taken
    size_t queued = 0;  // calls that wait for one
  };
  Load load(int device) const;

  void Submit(int device, Work* work);
  // True: the work was queued, and will not be run.
  bool Withdraw(int device, Work* work);
  // Withdraws all that leaves a lost device and tells it.
  void Abandon(int device);

 private:
  struct Device {
    std::unique_ptr<Backend> backend;
    DeviceHealth health;
    int slots = 0;
    absl::Mutex mutex;
    absl::CondVar changed;
    std::deque<Work*> queue ABSL_GUARDED_BY(mutex);
    // Workers that look for work, and need not be woken for it.
    size_t looking ABSL_GUARDED_BY(mutex) = 0;
    // Whether the queue has something, as a thread without the lock may see it.
    std::atomic<bool> has_queued = false;
    int free_slots ABSL_GUARDED_BY(mutex) = 0;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    std::vector<std::thread> workers;
  };

  static void RunWorker(Device* device, std::chrono::microseconds busy_poll);
  static void LookForWork(Device* device, std::chrono::microseconds busy_poll);

  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_ENGINE_H_
