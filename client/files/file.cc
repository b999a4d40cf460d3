#include "client/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "fmt/format.h"

namespace quantd {
namespace {

// Linux reads and writes at most 2 GiB at once.
constexpr size_t kMost = size_t{1} << 30;

// O_NONBLOCK, so that opening a FIFO does not wait.
constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

absl::Status Failure(std::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} {}", what, path));
}

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

bool WriteAll(int fd, std::optional<size_t> offset,
              absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t most = std::min(bytes.size(), kMost);
    const ssize_t n =
        offset ? pwrite(fd, bytes.data(), most, static_cast<off_t>(*offset))
               : write(fd, bytes.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
    if (offset) *offset += static_cast<size_t>(n);
  }
  return true;
}

std::optional<size_t> ReadAll(int fd, size_t offset,
                              absl::Span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pread(fd, bytes.data(), std::min(bytes.size(), kMost),
                            static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  return bytes.size();
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  return Take(open(path.c_str(), kRead), path);
}

absl::StatusOr<InputFile> InputFile::OpenUnlinked(const std::string& real,
                                                  const std::string& path) {
  const std::filesystem::path parts =
      std::filesystem::path(real).relative_path();
  int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (auto part = parts.begin(); at >= 0 && part != parts.end(); ++part) {
    const int flags = std::next(part) == parts.end()
                          ? kRead
                          : O_PATH | O_DIRECTORY | O_CLOEXEC;
    const int next = openat(at, part->c_str(), flags | O_NOFOLLOW);
    close(at);
    at = next;
  }
  return Take(at, path);
}

absl::StatusOr<InputFile> InputFile::Take(int fd, const std::string& path) {
  InputFile file;
  file.path_ = path;
  file.fd_ = fd;
  if (file.fd_ < 0) return Failure("open", path);
  struct stat info = {};
  if (fstat(file.fd_, &info) != 0) return Failure("read", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a regular file", path));
  }
  file.size_ = static_cast<size_t>(info.st_size);
  file.changed_ = info.st_mtim;
  file.identity_ = {info.st_dev, info.st_ino};
  return file;
}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
  std::swap(identity_, other.identity_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status InputFile::ReadAt(size_t offset,
                               absl::Span<std::byte> bytes) const {
  const auto missing = ReadAll(fd_, offset, bytes);
  struct stat now = {};
  if (!missing || fstat(fd_, &now) != 0) return Failure("read", path_);
  if (*missing > 0 || static_cast<size_t>(now.st_size) < size_) {
    return absl::DataLossError(fmt::format(
        "{} was truncated while it was read: {} bytes of {} are left", path_,
        now.st_size, size_));
  }
  if (static_cast<size_t>(now.st_size) != size_ ||
      !Same(now.st_mtim, changed_)) {
    return absl::DataLossError(
        fmt::format("{} was written to while it was read", path_));
  }
  return absl::OkStatus();
}

}  // namespace quantd
