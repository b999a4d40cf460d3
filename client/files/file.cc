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

// O_NONBLOCK, so that opening a FIFO does not wait.
constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

absl::Status Failure(std::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} {}", what, path));
}

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

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
  // Linux reads at most 2 GiB at once.
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t n = pread(fd_, bytes.data(), std::min(bytes.size(), kMost),
                            static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failure("read", path_);
    if (n == 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  struct stat now = {};
  if (fstat(fd_, &now) != 0) return Failure("read", path_);
  if (!bytes.empty() || static_cast<size_t>(now.st_size) < size_) {
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
