// The engine: devices, their slots and the threads that run jobs on them.
//
// A slot is the right to have one job alive on a device. Each device has as
// many worker threads as slots, and one first-come-first-served queue. A short
// job may also take a free slot and run on the caller's thread. A job whose
// input is still arriving holds no slot, so that a slow sender blocks none. The
// caller limits the number of such jobs.
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
  // Owns one slot, and returns it on destruction. Move-only.
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

  // Work for a worker, which runs it once, unless Withdraw or Abandon removes
  // it from the queue.
  class Work {
   public:
    virtual ~Work() = default;
    virtual void RunOn(Backend& backend, SlotLease slot) = 0;
    // Whether OnDeviceLost is called instead of RunOn if the device is
    // abandoned while the work is queued. Work that can run on no other device
    // returns false and stays queued.
    virtual bool LeavesLostDevice() const { return false; }
    virtual void OnDeviceLost() {}
  };

  // Needs at least one backend. Before a worker sleeps it polls for more work
  // for `busy_poll`, because waking an idle core takes longer than many jobs.
  explicit Engine(std::vector<std::unique_ptr<Backend>> backends,
                  std::chrono::microseconds busy_poll = {});
  // Waits for running work. No work may be queued.
  ~Engine();

  size_t size() const { return devices_.size(); }
  // The index of the backend with that name, or -1.
  int Find(std::string_view name) const;
  Backend& backend(int device) { return *devices_[device]->backend; }
  const Backend& backend(int device) const {
    return *devices_[device]->backend;
  }
  // The health of a device, for callers that choose one. The engine itself runs
  // jobs on any device.
  DeviceHealth& health(int device) { return devices_[device]->health; }
  const DeviceHealth& health(int device) const {
    return devices_[device]->health;
  }

  // Returns a lease on a slot if one is free now and no work waits for it, or
  // else an empty lease.
  SlotLease TrySlot(int device);
  // Whether a job with that many input bytes is so short that the caller should
  // run it.
  static bool RunsInline(size_t input_bytes);

  struct Load {
    int slots = 0;
    int busy = 0;       // slots in use
    size_t queued = 0;  // work waiting for a slot
  };
  Load load(int device) const;

  void Submit(int device, Work* work);
  // Removes queued work. Returns true if it was still queued; it will then not
  // run.
  bool Withdraw(int device, Work* work);
  // Removes the work that leaves a lost device, and calls its OnDeviceLost.
  void Abandon(int device);

 private:
  struct Device {
    std::unique_ptr<Backend> backend;
    DeviceHealth health;
    int slots = 0;
    absl::Mutex mutex;
    absl::CondVar changed;
    std::deque<Work*> queue ABSL_GUARDED_BY(mutex);
    // The number of workers that are polling and need not be woken.
    size_t looking ABSL_GUARDED_BY(mutex) = 0;
    // Whether the queue is not empty, for threads without the lock.
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
