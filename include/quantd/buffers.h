// Memory that calls use in place, without a copy and without the network.
// Client has the functions that allocate or share it.
#ifndef QUANTD_BUFFERS_H_
#define QUANTD_BUFFERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd {

// Access of a server to registered memory.
enum class HostUse {
  kReadWrite,
  kRead,  // it is mapped for reading alone: inputs
};

// Host memory from AllocateHost, which this object owns, or from RegisterHost,
// which it only keeps shared. Move-only. It may outlive its client; calls that
// use it must have ended when it is destroyed.
class HostMemory {
 public:
  HostMemory() = default;
  // Allocates memory that is not shared, uninitialised, 64-byte aligned.
  // RESOURCE_EXHAUSTED when the allocation fails.
  static absl::StatusOr<HostMemory> Ordinary(size_t bytes);
  // For the library.
  HostMemory(absl::Span<std::byte> bytes, std::shared_ptr<const void> owner,
             bool shared)
      : bytes_(bytes), owner_(std::move(owner)), shared_(shared) {}
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    owner_ = std::exchange(other.owner_, nullptr);
    shared_ = std::exchange(other.shared_, false);
    return *this;
  }

  // The memory, page-aligned unless it is ordinary. Any part of it may be an
  // input or a destination in CallOptions::into, in calls from any thread: it
  // is recognized by its address.
  absl::Span<std::byte> bytes() const { return bytes_; }
  // Whether it was shared with a server. If not, calls use it like any other
  // memory.
  bool shared() const { return shared_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool shared_ = false;
};

// GPU memory from AllocateDevice, which this object owns, or from
// RegisterDevice, which it only keeps shared. Move-only. It may outlive its
// client; calls that use it must have ended when it is destroyed.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // For the library.
  DeviceMemory(absl::Span<std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    owner_ = std::exchange(other.owner_, nullptr);
    return *this;
  }

  // Addresses on the GPU, which the host must not read; for registered memory
  // the whole allocation. Any part may be an input or a destination in
  // CallOptions::into, in calls from any thread.
  absl::Span<std::byte> bytes() const { return bytes_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// A CUDA event that Client::RegisterEvent shared with a server; the event
// itself is the caller's. Move-only. It may outlive its client; calls that use
// it must have ended when it is destroyed.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  // For the library.
  explicit DeviceEvent(std::shared_ptr<void> owner)
      : owner_(std::move(owner)) {}
  DeviceEvent(DeviceEvent&&) = default;
  DeviceEvent& operator=(DeviceEvent&&) = default;
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  std::shared_ptr<void> owner_;
};

// A source of memory, for example Client::TakeHost.
using AllocateMemory = std::function<absl::StatusOr<HostMemory>(size_t bytes)>;

}  // namespace quantd

#endif  // QUANTD_BUFFERS_H_
