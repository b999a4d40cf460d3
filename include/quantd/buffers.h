// Memory that calls work in where it lies, without a copy and without the
// network: the host's, made by Client::AllocateHost or made known by
// Client::RegisterHost; and a GPU's, by AllocateDevice or RegisterDevice.
#ifndef QUANTD_BUFFERS_H_
#define QUANTD_BUFFERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd {

// What a server may do with memory that is registered.
enum class HostUse {
  kReadWrite,
  kRead,  // it is mapped for reading alone: inputs
};

// Owns the memory, or of registered memory its being known. Move-only. It may
// outlive its client; calls that use it must be over when it goes.
class HostMemory {
 public:
  HostMemory() = default;
  // Memory of this process and nobody else's, uninitialised, 64-byte aligned.
  // RESOURCE_EXHAUSTED where there is none.
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

  // Begins at a page, but for ordinary memory. Any part of it may be a call's
  // input or a place of CallOptions::into, of calls from any thread: it is
  // known by its address.
  absl::Span<std::byte> bytes() const { return bytes_; }
  // Whether it was shared with a server. False: calls use it as any memory.
  bool shared() const { return shared_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool shared_ = false;
};

// Owns the memory, or of registered memory its being known. Move-only. It may
// outlive its client; calls that use it must be over when it goes.
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

  // Addresses of the GPU's, which the host must not read; of registered memory
  // the whole allocation. Any part of it may be a call's input or a place of
  // CallOptions::into, of calls from any thread.
  absl::Span<std::byte> bytes() const { return bytes_; }

 private:
  absl::Span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// An event of CUDA's that a server knows, made known by Client::RegisterEvent.
// Owns its being known, not the event. Move-only. It may outlive its client;
// calls that use it must be over when it goes.
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

// Where memory comes from: Client::TakeHost, for example.
using AllocateMemory = std::function<absl::StatusOr<HostMemory>(size_t bytes)>;

}  // namespace quantd

#endif  // QUANTD_BUFFERS_H_
