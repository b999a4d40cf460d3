#include "client/local/admission.h"

namespace quantd::client {

Admission::Admission(size_t devices, size_t per_device)
    : per_device_(per_device), used_(devices) {}

Admission::Room::~Room() {
  if (admission_ == nullptr) return;
  std::lock_guard lock(admission_->mutex_);
  admission_->used_[device_] -= bytes_;
  auto& waiting = admission_->waiting_;
  if (!waiting.empty()) waiting.front()->Wake();
}

std::optional<Admission::Room> Admission::Enter(size_t bytes, Time deadline,
                                                CallControl& control) {
  std::unique_lock lock(mutex_);
  const auto place = waiting_.insert(waiting_.end(), &control);
  std::optional<Room> room;
  while (true) {
    if (place == waiting_.begin()) {
      size_t best = next_ % used_.size();
      for (size_t i = 0; i < used_.size(); ++i) {
        if (used_[i] < used_[best]) best = i;
      }
      if (bytes <= per_device_ - used_[best]) {
        used_[best] += bytes;
        next_ = best + 1;
        room.emplace(Room(this, static_cast<int>(best), bytes));
        break;
      }
    }
    if (control.cancelled() || std::chrono::system_clock::now() >= deadline) {
      break;
    }
    lock.unlock();
    control.WaitForWake(deadline);
    lock.lock();
  }
  waiting_.erase(place);
  // There may be room for the next one, too; or this one stood in its way.
  if (!waiting_.empty()) waiting_.front()->Wake();
  return room;
}

}  // namespace quantd::client
