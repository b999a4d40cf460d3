#include "server/memory/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "proto/memory/mapping.h"
#include "server/memory/closing.h"

namespace quantd {
namespace {

using wire::OfferAnswer;
using wire::OfferReply;
using wire::Refuse;

// F_SEAL_FUTURE_WRITE, which older headers lack.
constexpr int kSealFutureWrite = 0x0010;

// In units of 512 bytes, whatever st_blksize says. What is swapped out counts.
bool IsPopulated(const struct stat& status) {
  return status.st_blocks >= status.st_size / 512;
}

// What speaks against mapping it.
std::optional<OfferReply> Judge(const wire::Offer& offer, int fd, int seals) {
  struct stat status = {};
  struct statfs system = {};
  // Of huge pages a missing one would be no error but a signal, so that they
  // are not taken: the file system must be the one of ordinary memfds.
  if (seals < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Refuse(OfferAnswer::kNotMemfd,
                  "expected a memfd of ordinary pages, got another descriptor");
  }
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  if ((seals & kNeeded) != kNeeded) {
    return Refuse(OfferAnswer::kNotSealed,
                  "expected the seals F_SEAL_SHRINK and F_SEAL_GROW");
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  if (size == 0 || size % page != 0 || size != offer.size) {
    return Refuse(
        OfferAnswer::kSize,
        fmt::format("expected {} bytes as offered, in pages of {}, got {}",
                    offer.size, page, size));
  }
  if (!IsPopulated(status)) {
    return Refuse(OfferAnswer::kNotPopulated,
                  fmt::format("expected {} bytes of pages, got {}", size,
                              status.st_blocks * 512));
  }
  return std::nullopt;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(apart_, other.apart_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ < 0) return;
  if (apart_) {
    CloseApart(fd_);
  } else {
    close(fd_);
  }
}

Region::Made Region::Map(const wire::Offer& offer, Descriptor descriptor,
                         std::shared_ptr<RegionUse> use,
                         std::shared_ptr<const Descriptor> connection) {
  return wire::IsOfDevice(offer.kind)
             ? MapDevice(offer, descriptor.get(), std::move(use),
                         std::move(connection))
             : MapHost(offer, std::move(descriptor), std::move(use),
                       std::move(connection));
}

Region::Made Region::MapDevice(const wire::Offer& offer, int fd,
                               std::shared_ptr<RegionUse> use,
                               std::shared_ptr<const Descriptor> connection) {
  auto mapping = DeviceMapping::Open({offer.uuid, offer.ipc, fd}, offer.size);
  if (!mapping.ok()) {
    const absl::Status& status = mapping.status();
    return Refuse(absl::IsNotFound(status)     ? OfferAnswer::kDevice
                  : absl::IsOutOfRange(status) ? OfferAnswer::kSize
                                               : OfferAnswer::kHandle,
                  std::string(status.message()));
  }
  return std::shared_ptr<const Region>(
      new Region(*std::move(mapping), !offer.read_only, std::move(use),
                 std::move(connection)));
}

Region::Made Region::MapHost(const wire::Offer& offer, Descriptor memfd,
                             std::shared_ptr<RegionUse> use,
                             std::shared_ptr<const Descriptor> connection) {
  const int fd = memfd.get();
  const int seals = fcntl(fd, F_GET_SEALS);
  if (auto refusal = Judge(offer, fd, seals)) return *std::move(refusal);
  const bool writable =
      !offer.read_only && (seals & (F_SEAL_WRITE | kSealFutureWrite)) == 0;
  void* const data = wire::MapShared(
      fd, offer.size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
      MAP_POPULATE);
  if (data == MAP_FAILED) {
    return Refuse(OfferAnswer::kNotMapped,
                  fmt::format("cannot map it: {}", std::strerror(errno)));
  }
  // Where its pages are large ones.
  madvise(data, offer.size, MADV_HUGEPAGE);
  return std::shared_ptr<const Region>(
      new Region(std::move(memfd), static_cast<std::byte*>(data), offer.size,
                 writable, std::move(use), std::move(connection)));
}

Region::Region(Descriptor memfd, std::byte* data, size_t size, bool writable,
               std::shared_ptr<RegionUse> use,
               std::shared_ptr<const Descriptor> connection)
    : connection_(std::move(connection)),
      use_(std::move(use)),
      memfd_(std::move(memfd)),
      data_(data),
      size_(size),
      writable_(writable) {
  locked_.emplace(absl::MakeSpan(data, size), writable);
  ++use_->regions;
  use_->bytes += size_;
}

Region::Region(std::unique_ptr<DeviceMapping> mapping, bool writable,
               std::shared_ptr<RegionUse> use,
               std::shared_ptr<const Descriptor> connection)
    : connection_(std::move(connection)),
      use_(std::move(use)),
      data_(mapping->data()),
      size_(mapping->size()),
      writable_(writable),
      device_(mapping->device()),
      mapping_(std::move(mapping)) {
  ++use_->regions;
  use_->device_bytes += size_;
}

bool Region::IsWhole() const {
  struct stat status = {};
  if (memfd_.get() >= 0 && whole_ &&
      (fstat(memfd_.get(), &status) != 0 || !IsPopulated(status))) {
    whole_ = false;
  }
  return whole_;
}

Region::~Region() {
  --use_->regions;
  if (mapping_ != nullptr) {
    use_->device_bytes -= size_;
    return;
  }
  locked_.reset();
  munmap(data_, size_);
  use_->bytes -= size_;
}

}  // namespace quantd
