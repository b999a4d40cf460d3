#include "server/memory/regions.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/random.h>
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

namespace quantd {
namespace {

using wire::OfferAnswer;
using wire::OfferReply;
using wire::Refuse;

// F_SEAL_FUTURE_WRITE, which older headers lack.
constexpr int kSealFutureWrite = 0x0010;

// st_blocks is in units of 512 bytes, whatever st_blksize says. Swapped pages
// count.
bool IsPopulated(const struct stat& status) {
  return status.st_blocks >= status.st_size / 512;
}

// Why the memory cannot be mapped, if so.
std::optional<OfferReply> Judge(const wire::Offer& offer, int fd, int seals) {
  struct stat status = {};
  struct statfs system = {};
  // Huge pages are refused, since a missing one raises a signal instead of an
  // error: the file system must be that of ordinary memfds.
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

using Taken = std::variant<Shared, OfferReply>;

Taken Refuse(const absl::Status& status) {
  return Refuse(absl::IsNotFound(status)     ? OfferAnswer::kDevice
                : absl::IsOutOfRange(status) ? OfferAnswer::kSize
                                             : OfferAnswer::kHandle,
                std::string(status.message()));
}

Taken TakeHost(const wire::Offer& offer, Region::Parts parts) {
  const int fd = parts.memfd.get();
  const int seals = fcntl(fd, F_GET_SEALS);
  if (auto refusal = Judge(offer, fd, seals)) return *std::move(refusal);
  parts.writable &= (seals & (F_SEAL_WRITE | kSealFutureWrite)) == 0;
  void* const data = wire::MapShared(
      fd, offer.size, parts.writable ? PROT_READ | PROT_WRITE : PROT_READ,
      MAP_POPULATE);
  if (data == MAP_FAILED) {
    return Refuse(OfferAnswer::kNotMapped,
                  fmt::format("cannot map it: {}", std::strerror(errno)));
  }
  // Allows transparent huge pages.
  madvise(data, offer.size, MADV_HUGEPAGE);
  parts.data = static_cast<std::byte*>(data);
  parts.size = offer.size;
  return std::make_shared<const Region>(std::move(parts));
}

}  // namespace

Taken TakeOffer(const wire::Offer& offer, Descriptor descriptor,
                Taking taking) {
  if (offer.kind == wire::RegionKind::kCudaEvent) {
    auto mapping = EventMapping::Open({offer.uuid, offer.ipc});
    if (!mapping.ok()) return Refuse(mapping.status());
    return std::make_shared<const SharedEvent>(std::move(taking),
                                               *std::move(mapping));
  }
  Region::Parts parts{std::move(taking), !offer.read_only, nullptr, 0,
                      std::move(descriptor)};
  if (!wire::IsOfDevice(offer.kind)) return TakeHost(offer, std::move(parts));
  // Opening the mapping needs the descriptor; the open mapping does not.
  auto mapping = DeviceMapping::Open(
      {offer.uuid, offer.ipc, Descriptor(std::move(parts.memfd)).get()},
      offer.size);
  if (!mapping.ok()) return Refuse(mapping.status());
  parts.mapping = *std::move(mapping);
  parts.data = parts.mapping->data();
  parts.size = parts.mapping->size();
  return std::make_shared<const Region>(std::move(parts));
}

Region::Region(Parts parts) : parts_(std::move(parts)) {
  ++parts_.taking.use->regions;
  if (parts_.mapping) {
    parts_.taking.use->device_bytes += size();
  } else {
    locked_.emplace(absl::MakeSpan(data(), size()), writable());
    parts_.taking.use->bytes += size();
  }
}

Region::~Region() {
  --parts_.taking.use->regions;
  if (parts_.mapping) {
    parts_.taking.use->device_bytes -= size();
  } else {
    locked_.reset();
    munmap(data(), size());
    parts_.taking.use->bytes -= size();
  }
}

bool Region::IsWhole() const {
  struct stat status = {};
  if (!parts_.mapping && whole_ &&
      (fstat(parts_.memfd.get(), &status) != 0 || !IsPopulated(status))) {
    whole_ = false;
  }
  return whole_;
}

SharedEvent::SharedEvent(Taking taking,
                         std::unique_ptr<const EventMapping> mapping)
    : taking_(std::move(taking)), mapping_(std::move(mapping)) {
  ++taking_.use->events;
}

SharedEvent::~SharedEvent() {
  mapping_.reset();
  --taking_.use->events;
}

std::string Regions::Add(Shared shared) {
  std::string name(wire::kRegionNameBytes, '\0');
  if (getrandom(name.data(), name.size(), 0) !=
      static_cast<ssize_t>(name.size())) {
    return "";
  }
  absl::MutexLock lock(&mutex_);
  shared_.emplace(name, std::move(shared));
  return name;
}

void Regions::Remove(const std::string& name) {
  Shared taken;  // unmapped and closed without the lock
  absl::MutexLock lock(&mutex_);
  const auto it = shared_.find(name);
  if (it == shared_.end()) return;
  taken = std::move(it->second);
  shared_.erase(it);
}

}  // namespace quantd
