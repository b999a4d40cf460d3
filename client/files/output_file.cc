#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "client/files/file.h"
#include "fmt/format.h"

namespace quantd {
namespace {

constexpr std::string_view kPartial = ".partial.";

// The drafts that this process has created and not yet renamed.
struct Drafts {
  std::mutex mutex;
  std::set<std::string> paths;
};
Drafts& AllDrafts() {
  // Never destroyed: threads may still use it while the process exits.
  static auto* const drafts = new Drafts;
  return *drafts;
}

// Whether no process writes the draft that process `pid` created. The file lock
// decides. The process id only protects the draft of a live process that has
// not locked it yet.
bool IsStale(const std::string& draft, pid_t pid) {
  if (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH)) return false;
  const int fd = open(
      draft.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return false;
  struct stat info = {};
  const bool stale = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                     flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return stale;
}

void RemoveStaleDrafts(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string prefix = whole.filename().string() + std::string(kPartial);
  const auto folder = whole.has_parent_path() ? whole.parent_path() : ".";
  std::error_code error;
  std::vector<std::string> stale;
  for (std::filesystem::directory_iterator i(folder, error), end;
       !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    pid_t pid = 0;
    const char* const last = name.data() + name.size();
    const auto [rest, bad] =
        std::from_chars(name.data() + prefix.size(), last, pid);
    if (bad != std::errc() || rest != last || pid <= 0) continue;
    if (IsStale(i->path().string(), pid)) stale.push_back(i->path().string());
  }
  for (const std::string& draft : stale) unlink(draft.c_str());
}

}  // namespace

absl::Status OutputFile::Failure(const char* what) const {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} {}", what, path_));
}

// Resolves the path as it is now, and checks that the file may be replaced or
// written to.
absl::Status OutputFile::Settle() {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("cannot write {}: {}", path_, why));
  };
  if (path_.empty()) return refuse("the path is empty");
  struct stat info = {};
  if (stream_ >= 0) {
    if (fstat(stream_, &info) != 0) return Failure("write");
  } else if (stat(path_.c_str(), &info) != 0) {
    if (errno != ENOENT) return Failure("create");
    if (lstat(path_.c_str(), &info) == 0)
      return refuse("it is a link to a file that does not exist");
    final_ = path_;
    return absl::OkStatus();
  }
  if (source_ && *source_ == FileIdentity{info.st_dev, info.st_ino}) {
    return refuse("it is also the input, which would be lost");
  }
  if (stream_ >= 0) {
    return isatty(stream_) == 1 ? refuse("it is a terminal") : absl::OkStatus();
  }
  switch (info.st_mode & S_IFMT) {
    case S_IFREG:
      break;
    case S_IFDIR:
      return refuse("it is a directory");
    case S_IFCHR:
    case S_IFIFO:
      final_.clear();
      return absl::OkStatus();
    default:
      return refuse("it is neither a regular file nor a FIFO");
  }
  final_ = path_;
  mode_ = info.st_mode & 07777;
  replaces_ = true;
  if (lstat(path_.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    char* const real = realpath(path_.c_str(), nullptr);
    if (real == nullptr) return Failure("create");
    final_ = real;
    free(real);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::OpenDraft() {
  RemoveStaleDrafts(final_);
  // The process id distinguishes two programs that write the same file. O_EXCL
  // refuses a link that another program put at this path.
  const std::string draft = fmt::format("{}{}{}", final_, kPartial, getpid());
  Drafts& drafts = AllDrafts();
  const std::lock_guard lock(drafts.mutex);
  fd_ = open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(fmt::format(
        "cannot create {}: another program is writing it ({})", path_, draft));
  }
  if (fd_ < 0) return Failure("create");
  draft_ = draft;
  drafts.paths.insert(draft_);
  flock(fd_, LOCK_EX | LOCK_NB);
  if (replaces_ && fchmod(fd_, mode_) != 0) return Failure("create");
  return absl::OkStatus();
}

absl::Status OutputFile::OpenStream() {
  // O_NONBLOCK: open() must not wait for the reader of a FIFO.
  stream_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (stream_ < 0 && errno == ENXIO) {
    return absl::InvalidArgumentError(fmt::format(
        "cannot write {}: the FIFO has no reader; start it first", path_));
  }
  if (stream_ < 0) return Failure("open");
  const int flags = fcntl(stream_, F_GETFL);
  if (flags < 0 || fcntl(stream_, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return Failure("open");
  }
  return Settle();
}

absl::Status OutputFile::Stage() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  std::string name = (error ? "." : folder) / "quantd.XXXXXX";
  fd_ = mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) return Failure("make a temporary file for");
  unlink(name.c_str());
  return absl::OkStatus();
}

absl::StatusOr<OutputFile> OutputFile::Create(
    const std::string& path, std::optional<FileIdentity> source) {
  OutputFile file;
  file.path_ = path;
  file.source_ = source;
  if (auto s = file.Settle(); !s.ok()) return s;
  if (!file.final_.empty()) {
    if (auto s = file.OpenDraft(); !s.ok()) return s;
    return file;
  }
  if (auto s = file.OpenStream(); !s.ok()) return s;
  if (auto s = file.Stage(); !s.ok()) return s;
  return file;
}

absl::StatusOr<OutputFile> OutputFile::ToStream(
    int fd, const std::string& name, std::optional<FileIdentity> source) {
  OutputFile file;
  file.path_ = name;
  file.stream_ = fd;
  file.source_ = source;
  if (auto s = file.Settle(); !s.ok()) return s;
  if (auto s = file.Stage(); !s.ok()) return s;
  return file;
}

void OutputFile::AbandonAll() {
  Drafts& drafts = AllDrafts();
  drafts.mutex.lock();  // never unlocked
  for (const std::string& path : drafts.paths) unlink(path.c_str());
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(final_, other.final_);
  std::swap(draft_, other.draft_);
  std::swap(fd_, other.fd_);
  std::swap(stream_, other.stream_);
  std::swap(size_, other.size_);
  std::swap(mode_, other.mode_);
  std::swap(replaces_, other.replaces_);
  std::swap(source_, other.source_);
  return *this;
}

void OutputFile::Drop() {
  if (!draft_.empty()) {
    Drafts& drafts = AllDrafts();
    const std::lock_guard lock(drafts.mutex);
    unlink(draft_.c_str());
    drafts.paths.erase(draft_);
    draft_.clear();
  }
  for (int* fd : {&fd_, &stream_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

OutputFile::~OutputFile() { Drop(); }

absl::Status OutputFile::Reserve(size_t bytes) {
  if (bytes == 0 || fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0) {
    size_ = std::max(size_, bytes);
    return absl::OkStatus();
  }
  // Other errors mean that the file system does not support fallocate.
  if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) {
    return absl::OkStatus();
  }
  const absl::Status status = Failure("write");
  return absl::Status(status.code(),
                      fmt::format("{} ({} bytes are needed)",
                                  std::string(status.message()), bytes));
}

absl::Status OutputFile::WriteAt(size_t offset,
                                 absl::Span<const std::byte> bytes) {
  if (!WriteAll(fd_, offset, bytes)) return Failure("write");
  size_ = std::max(size_, offset + bytes.size());
  return absl::OkStatus();
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  auto file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  const auto s = file->WriteAt(0, std::as_bytes(std::span(text)));
  return s.ok() ? file->Commit() : s;
}

// Copies the temporary file to the stream.
absl::Status OutputFile::Pour() {
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (size_t done = 0; done < size_;) {
    const auto bytes =
        absl::MakeSpan(buffer).first(std::min(buffer.size(), size_ - done));
    if (ReadAll(fd_, done, bytes) != 0u) {
      return Failure("read the temporary file for");
    }
    if (!WriteAll(stream_, std::nullopt, bytes)) return Failure("write");
    done += bytes.size();
  }
  const int closed = close(stream_);
  stream_ = -1;
  return closed == 0 ? absl::OkStatus() : Failure("write");
}

absl::Status OutputFile::Commit() {
  if (stream_ >= 0) return Pour();
  // Synced before the rename: otherwise a power cut could leave the final path
  // with missing bytes.
  if (fsync(fd_) != 0) return Failure("write");
  // The path may resolve differently by now.
  const std::string before = final_;
  if (auto s = Settle(); !s.ok()) return s;
  if (final_ != before) {
    return absl::AbortedError(fmt::format(
        "cannot write {}: it was replaced by another program", path_));
  }
  Drafts& drafts = AllDrafts();
  const std::lock_guard lock(drafts.mutex);
  if (std::rename(draft_.c_str(), final_.c_str()) != 0) {
    return Failure("write");
  }
  drafts.paths.erase(draft_);
  draft_.clear();
  return absl::OkStatus();
}

}  // namespace quantd
