#include "client/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "fmt/format.h"

namespace quantd {
namespace {

absl::Status Failure(std::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} {}", what, path));
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failure("open", path);
  struct stat info = {};
  MappedFile file;
  absl::Status status;
  if (fstat(fd, &info) != 0) {
    status = Failure("read", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(
        fmt::format("{} is not a regular file", path));
  } else if (info.st_size > 0) {
    void* data = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      status = Failure("map", path);
    } else {
      file.data_ = static_cast<const std::byte*>(data);
      file.size_ = info.st_size;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return file;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  // The process id keeps two programs that write the same file apart; O_EXCL
  // keeps us from following a link somebody laid there.
  file.partial_ = fmt::format("{}.partial.{}", path, getpid());
  file.fd_ = open(file.partial_.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return Failure("create", path);
  return file;
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(partial_, other.partial_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(partial_.c_str());
}

absl::Status OutputFile::WriteAt(size_t offset,
                                 absl::Span<const std::byte> bytes) {
  // Linux writes at most 2 GiB at once.
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), std::min(bytes.size(), kMost),
                             static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failure("write", path_);
    bytes.remove_prefix(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  // Before the rename: else a power cut may leave the name and not the bytes.
  if (fsync(fd_) != 0) return Failure("write", path_);
  const int closed = close(fd_);
  fd_ = -1;
  if (closed != 0 || std::rename(partial_.c_str(), path_.c_str()) != 0) {
    const absl::Status status = Failure("write", path_);
    unlink(partial_.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace quantd
