#include "client/local/admission.h"

#include <algorithm>

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

std::optional<Admission::Room> Admission::Enter(absl::Span<const size_t> needs,
                                                Time deadline,
                                                CallControl& control) {
  const size_t bytes = *std::min_element(needs.begin(), needs.end());
  std::unique_lock lock(mutex_);
  const auto place = waiting_.insert(waiting_.end(), &control);
  std::optional<Room> room;
  while (true) {
    if (place == waiting_.begin()) {
      // Takes the device with the least memory in use. Ties are broken in
      // rotation.
      size_t best = used_.size();
      for (size_t k = 0; k < used_.size(); ++k) {
        const size_t i = (next_ + k) % used_.size();
        if (needs[i] != bytes) continue;
        if (best == used_.size() || used_[i] < used_[best]) best = i;
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
  // The next waiting call may fit as well.
  if (!waiting_.empty()) waiting_.front()->Wake();
  return room;
}

}  // namespace quantd::client
