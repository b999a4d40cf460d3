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

// The server's access to registered memory.
enum class HostUse {
  kReadWrite,
  kRead,  // the server maps the memory read-only; for inputs
};

// Host memory from AllocateHost, which this object owns, or from RegisterHost,
// which the caller owns and this object only keeps shared. Move-only. It may
// outlive its client. Calls that use the memory must have ended when it is
// destroyed.
class HostMemory {
 public:
  HostMemory() = default;
  // Allocates memory that is not shared. It is uninitialised and 64-byte
  // aligned. RESOURCE_EXHAUSTED when the allocation fails.
  static absl::StatusOr<HostMemory> Ordinary(size_t bytes);
  // Used only by the library.
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

  // The memory, page-aligned unless it comes from Ordinary. Any part of it may
  // be an input or a destination in CallOptions::into, in calls from any
  // thread: calls recognize the memory by its address.
  absl::Span<std::byte> bytes() const { return bytes_; }
  // Whether the memory was shared with a server. If not, calls use it like any
  // other memory.
  bool shared() const { return shared_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool shared_ = false;
};

// GPU memory from AllocateDevice, which this object owns, or from
// RegisterDevice, which the caller owns and this object only keeps shared.
// Move-only. It may outlive its client. Calls that use the memory must have
// ended when it is destroyed.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Used only by the library.
  DeviceMemory(absl::Span<std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    owner_ = std::exchange(other.owner_, nullptr);
    return *this;
  }

  // The memory's addresses on the GPU, which the host must not read. For
  // registered memory this is the whole allocation. Any part may be an input or
  // a destination in CallOptions::into, in calls from any thread.
  absl::Span<std::byte> bytes() const { return bytes_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// A CUDA event that Client::RegisterEvent shared with a server. The caller owns
// the event itself. Move-only. It may outlive its client. Calls that use the
// event must have ended when it is destroyed.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  // Used only by the library.
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
