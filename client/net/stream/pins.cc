#include "client/net/stream/pins.h"

namespace quantd::client {

grpc::Slice Pins::Borrow(absl::Span<const std::byte> bytes,
                         const std::shared_ptr<Pins>& pins) {
  {
    std::lock_guard lock(pins->mutex_);
    ++pins->held_;
  }
  // gRPC never writes to the bytes of a slice that it sends.
  void* data = const_cast<std::byte*>(bytes.data());
  return grpc::Slice(data, bytes.size(), &Pins::Release,
                     new std::shared_ptr<Pins>(pins));
}

void Pins::WaitUntilFree() {
  std::unique_lock lock(mutex_);
  free_.wait(lock, [&] { return held_ == 0; });
}

void Pins::Release(void* arg) {
  // The handle keeps the mutex alive until the lock is released.
  const std::unique_ptr<std::shared_ptr<Pins>> handle(
      static_cast<std::shared_ptr<Pins>*>(arg));
  Pins& pins = **handle;
  std::lock_guard lock(pins.mutex_);
  if (--pins.held_ == 0) pins.free_.notify_all();
}

}  // namespace quantd::client
