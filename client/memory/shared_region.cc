#include "client/memory/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "proto/memory/mapping.h"

namespace quantd::client {
namespace {

constexpr std::chrono::seconds kBetweenTries{1};

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(fmt::format(
      "no memory for {} bytes to share: {}", bytes, std::strerror(errno)));
}

}  // namespace

SharedRegion::Made SharedRegion::Allocate(size_t bytes,
                                          const DoorAddress& door) {
  const int memfd = memfd_create("quantd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return NoMemory(bytes);
  absl::Cleanup close_memfd = [memfd] { close(memfd); };
  if (ftruncate(memfd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0) {
    return NoMemory(bytes);
  }
  void* const data = wire::MapShared(memfd, bytes, PROT_READ | PROT_WRITE);
  if (data == MAP_FAILED) return NoMemory(bytes);
  absl::Cleanup unmap = [=] { munmap(data, bytes); };
  // Allocates all pages now, because they must belong to this process.
  if (!wire::Populate(memfd, {static_cast<std::byte*>(data), bytes})) {
    return NoMemory(bytes);
  }
  std::move(unmap).Cancel();
  std::move(close_memfd).Cancel();
  return Shared(std::shared_ptr<SharedRegion>(
      new SharedRegion({wire::RegionKind::kMemfd, false, bytes}, memfd,
                       {static_cast<std::byte*>(data), bytes}, true, door)));
}

SharedRegion::Made SharedRegion::Adopt(int memfd, absl::Span<std::byte> mapping,
                                       HostUse use, const DoorAddress& door) {
  const int own = fcntl(memfd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return absl::InvalidArgumentError(
        fmt::format("memfd: expected an open descriptor, got {}: {}", memfd,
                    std::strerror(errno)));
  }
  const bool read_only = use == HostUse::kRead;
  return Shared(std::shared_ptr<SharedRegion>(
      new SharedRegion({wire::RegionKind::kMemfd, read_only, mapping.size()},
                       own, mapping, false, door)));
}

SharedRegion::Made SharedRegion::AllocateDevice(int ordinal, size_t bytes,
                                                const DoorAddress& door) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  const auto allocation = (*driver)->Allocate(ordinal, bytes);
  if (!allocation.ok()) return allocation.status();
  return ShareDevice(**driver, *allocation, true, door);
}

SharedRegion::Made SharedRegion::AdoptDevice(const void* address,
                                             const DoorAddress& door) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  const auto allocation = (*driver)->Find(address);
  if (!allocation.ok()) return allocation.status();
  return ShareDevice(**driver, *allocation, false, door);
}

SharedRegion::Made SharedRegion::AdoptEvent(int ordinal, void* event,
                                            const DoorAddress& door) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return driver.status();
  const auto offer = (*driver)->ExportEvent(ordinal, event);
  if (!offer.ok()) return offer.status();
  return Shared(std::shared_ptr<SharedRegion>(
      new SharedRegion(*offer, -1, {}, false, door)));
}

SharedRegion::Made SharedRegion::ShareDevice(const CudaDriver& driver,
                                             const CudaAllocation& allocation,
                                             bool owns,
                                             const DoorAddress& door) {
  const auto exported = driver.Export(allocation);
  if (!exported.ok()) {
    if (owns) driver.Free(allocation);
    return exported.status();
  }
  auto region = std::shared_ptr<SharedRegion>(new SharedRegion(
      exported->offer, exported->descriptor, allocation.bytes, owns, door));
  region->device_ = allocation;
  return Shared(std::move(region));
}

SharedRegion::Made SharedRegion::Shared(std::shared_ptr<SharedRegion> region) {
  auto connection = region->Share(region->door_.patience);
  if (!connection.ok()) return connection.status();
  region->connection_ = *std::move(connection);
  return region;
}

SharedRegion::~SharedRegion() {
  if (owns_ && device_) {
    // The server must stop using the memory before it is freed.
    connection_.reset();
    (*CudaDriver::Get())->Free(*device_);
  } else if (owns_) {
    munmap(bytes_.data(), bytes_.size());
  }
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<std::shared_ptr<DoorConnection>> SharedRegion::Share(
    std::chrono::milliseconds patience) const {
  return DoorConnection::Share({door_.path, std::min(patience, door_.patience)},
                               offer_, descriptor_);
}

std::shared_ptr<DoorConnection> SharedRegion::Connection(
    std::chrono::milliseconds patience) {
  // After a free, other memory may have the same address.
  if (device_ && !(*CudaDriver::Get())->IsThere(*device_)) return nullptr;
  std::unique_lock lock(mutex_);
  if (connection_ != nullptr || given_up_ || sharing_ ||
      Clock::now() < next_try_) {
    return connection_;
  }
  sharing_ = true;
  lock.unlock();
  auto connection = Share(patience);
  lock.lock();
  sharing_ = false;
  if (connection.ok()) {
    connection_ = *std::move(connection);
  } else {
    next_try_ = Clock::now() + kBetweenTries;
  }
  return connection_;
}

void SharedRegion::Lose(const std::shared_ptr<DoorConnection>& connection) {
  std::lock_guard lock(mutex_);
  if (connection_ == connection) connection_ = nullptr;
}

void SharedRegion::Settle(const std::shared_ptr<DoorConnection>& connection) {
  Lose(connection);
  if (connection->End(door_.patience)) return;
  std::lock_guard lock(mutex_);
  given_up_ = true;
}

}  // namespace quantd::client
