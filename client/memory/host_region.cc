#include "client/memory/host_region.h"

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

namespace quantd::client {
namespace {

constexpr std::chrono::seconds kBetweenTries{1};

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(fmt::format(
      "no memory of {} bytes to share: {}", bytes, std::strerror(errno)));
}

bool Populate(int memfd, void* data, size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14
  return madvise(data, bytes, kPopulateWrite) == 0 ||
         fallocate(memfd, 0, 0, static_cast<off_t>(bytes)) == 0;
}

}  // namespace

HostRegion::Made HostRegion::Allocate(size_t bytes, const DoorAddress& door) {
  const int memfd = memfd_create("quantd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return NoMemory(bytes);
  absl::Cleanup close_memfd = [memfd] { close(memfd); };
  if (ftruncate(memfd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0) {
    return NoMemory(bytes);
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (data == MAP_FAILED) return NoMemory(bytes);
  absl::Cleanup unmap = [=] { munmap(data, bytes); };
  // Pages are this process's, not the server's: they are all made here, and
  // are few and large where the system has such (shmem_enabled).
  madvise(data, bytes, MADV_HUGEPAGE);
  if (!Populate(memfd, data, bytes)) return NoMemory(bytes);
  std::move(unmap).Cancel();
  std::move(close_memfd).Cancel();
  auto region = std::shared_ptr<HostRegion>(
      new HostRegion(memfd, {static_cast<std::byte*>(data), bytes}, true,
                     HostUse::kReadWrite, door));
  if (auto s = region->ShareFirst(); !s.ok()) return s;
  return region;
}

HostRegion::Made HostRegion::Adopt(int memfd, absl::Span<std::byte> mapping,
                                   HostUse use, const DoorAddress& door) {
  const int own = fcntl(memfd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return absl::InvalidArgumentError(
        fmt::format("memfd: expected an open descriptor, got {}: {}", memfd,
                    std::strerror(errno)));
  }
  auto region = std::shared_ptr<HostRegion>(
      new HostRegion(own, mapping, false, use, door));
  if (auto s = region->ShareFirst(); !s.ok()) return s;
  return region;
}

HostRegion::~HostRegion() {
  if (owns_mapping_) munmap(bytes_.data(), bytes_.size());
  close(memfd_);
}

absl::StatusOr<std::shared_ptr<DoorConnection>> HostRegion::Share(
    std::chrono::milliseconds patience) const {
  return DoorConnection::Share({door_.path, std::min(patience, door_.patience)},
                               memfd_, bytes_.size(), !writable());
}

absl::Status HostRegion::ShareFirst() {
  auto connection = Share(door_.patience);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  return absl::OkStatus();
}

std::shared_ptr<DoorConnection> HostRegion::Connection(
    std::chrono::milliseconds patience) {
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

void HostRegion::Lose(const std::shared_ptr<DoorConnection>& connection) {
  std::lock_guard lock(mutex_);
  if (connection_ == connection) connection_ = nullptr;
}

void HostRegion::Settle(const std::shared_ptr<DoorConnection>& connection) {
  Lose(connection);
  if (connection->End(door_.patience)) return;
  std::lock_guard lock(mutex_);
  given_up_ = true;
}

}  // namespace quantd::client
