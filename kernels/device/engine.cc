#include "kernels/device/engine.h"

#include <algorithm>

namespace quantd {
namespace {

// Jobs below this size take about as long as waking a worker: 20 us, or 40 us
// on a GPU.
constexpr size_t kInlineBytes = 64 << 10;

}  // namespace

Engine::SlotLease& Engine::SlotLease::operator=(SlotLease&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  device_ = std::exchange(other.device_, nullptr);
  return *this;
}

void Engine::SlotLease::Reset() {
  if (device_ == nullptr) return;
  absl::MutexLock lock(&device_->mutex);
  ++device_->free_slots;
  if (!device_->queue.empty()) device_->changed.Signal();
  device_ = nullptr;
}

Engine::Engine(std::vector<std::unique_ptr<Backend>> backends,
               std::chrono::microseconds busy_poll) {
  for (auto& backend : backends) {
    auto device = std::make_unique<Device>();
    const int slots = std::max(1, backend->info().slots);
    device->slots = slots;
    device->backend = std::move(backend);
    {
      absl::MutexLock lock(&device->mutex);
      device->free_slots = slots;
    }
    for (int i = 0; i < slots; ++i) {
      device->workers.emplace_back(RunWorker, device.get(), busy_poll);
    }
    devices_.push_back(std::move(device));
  }
}

int Engine::Find(std::string_view name) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (backend(static_cast<int>(i)).info().name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Engine::~Engine() {
  for (auto& device : devices_) {
    absl::MutexLock lock(&device->mutex);
    device->stopping = true;
    device->changed.SignalAll();
  }
  for (auto& device : devices_) {
    for (std::thread& worker : device->workers) worker.join();
  }
}

Engine::SlotLease Engine::TrySlot(int device) {
  Device& d = *devices_[device];
  absl::MutexLock lock(&d.mutex);
  if (d.free_slots == 0 || !d.queue.empty()) return SlotLease();
  --d.free_slots;
  return SlotLease(&d);
}

bool Engine::RunsInline(size_t input_bytes) {
  return input_bytes <= kInlineBytes;
}

Engine::Load Engine::load(int device) const {
  Device& d = *devices_[device];
  absl::MutexLock lock(&d.mutex);
  return {d.slots, d.slots - d.free_slots, d.queue.size()};
}

void Engine::Submit(int device, Work* work) {
  Device& d = *devices_[device];
  absl::MutexLock lock(&d.mutex);
  d.queue.push_back(work);
  d.has_queued = true;
  if (d.queue.size() > d.looking) d.changed.Signal();
}

bool Engine::Withdraw(int device, Work* work) {
  Device& d = *devices_[device];
  absl::MutexLock lock(&d.mutex);
  const auto it = std::find(d.queue.begin(), d.queue.end(), work);
  if (it == d.queue.end()) return false;
  d.queue.erase(it);
  d.has_queued = !d.queue.empty();
  return true;
}

void Engine::Abandon(int device) {
  Device& d = *devices_[device];
  std::vector<Work*> leaving;
  {
    absl::MutexLock lock(&d.mutex);
    const auto stays = std::stable_partition(
        d.queue.begin(), d.queue.end(),
        [](const Work* work) { return work->LeavesLostDevice(); });
    leaving.assign(d.queue.begin(), stays);
    d.queue.erase(d.queue.begin(), stays);
    d.has_queued = !d.queue.empty();
  }
  for (Work* work : leaving) work->OnDeviceLost();
}

void Engine::LookForWork(Device* device, std::chrono::microseconds busy_poll) {
  {
    absl::MutexLock lock(&device->mutex);
    ++device->looking;
  }
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + busy_poll;
       !device->has_queued && Clock::now() < end;) {
  }
  // Work that was queued in the meantime is seen by the next thread that holds
  // the lock.
  absl::MutexLock lock(&device->mutex);
  --device->looking;
}

void Engine::RunWorker(Device* device, std::chrono::microseconds busy_poll) {
  while (true) {
    if (busy_poll.count() > 0) LookForWork(device, busy_poll);
    Work* work = nullptr;
    {
      absl::MutexLock lock(&device->mutex);
      while (!device->stopping &&
             (device->queue.empty() || device->free_slots == 0)) {
        device->changed.Wait(&device->mutex);
      }
      if (device->stopping) return;
      work = device->queue.front();
      device->queue.pop_front();
      device->has_queued = !device->queue.empty();
      --device->free_slots;
    }
    work->RunOn(*device->backend, SlotLease(device));
  }
}

}  // namespace quantd
