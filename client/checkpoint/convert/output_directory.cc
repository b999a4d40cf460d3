#include "client/checkpoint/convert/output_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>

#include "client/files/file.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kJournal = ".quantd-journal";

absl::Status Failure(std::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot {} {}", what, path));
}

bool IsFile(const Model& in, const std::string& out) {
  return in.single_file() && out.ends_with(".safetensors");
}

std::string FolderOf(const std::string& out) {
  const fs::path path(out);
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

std::string JournalOf(const Model& in, const std::string& out) {
  return IsFile(in, out) ? fmt::format("{}{}", out, kJournal)
                         : fmt::format("{}/{}", out, kJournal);
}

// Resolves links and ".." in a path whose last parts may not exist yet.
absl::StatusOr<std::string> Resolve(const std::string& out) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(out, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot write {}", out));
  }
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// Whether `path` is the directory or inside it. Compares inodes, so that links
// and mounts are recognized.
bool IsInside(std::string path, const struct stat& directory) {
  struct stat here = {};
  // For a path that does not exist yet, its nearest existing parent counts.
  while (stat(path.c_str(), &here) != 0) {
    const fs::path parent = fs::path(path).parent_path();
    if (parent == path) return false;
    path = parent.empty() ? "." : parent.string();
  }
  if (!S_ISDIR(here.st_mode)) return false;
  for (;;) {
    if (here.st_dev == directory.st_dev && here.st_ino == directory.st_ino) {
      return true;
    }
    path += "/..";
    struct stat above = {};
    if (stat(path.c_str(), &above) != 0) return false;
    if (above.st_dev == here.st_dev && above.st_ino == here.st_ino) {
      return false;
    }
    here = above;
  }
}

void SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

absl::Status CheckOutput(const Model& in, const std::string& out) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("cannot write {}: {}", out, why));
  };
  if (out.empty()) return refuse("the name is empty");
  if (out == "-") {
    return refuse(
        "a model is a directory and cannot be written to standard output");
  }
  struct stat info = {};
  const bool there = stat(out.c_str(), &info) == 0;
  if (!there && lstat(out.c_str(), &info) == 0) {
    return refuse("it is a broken link");
  }
  const bool interrupted = access(JournalOf(in, out).c_str(), F_OK) == 0;
  if (IsFile(in, out)) {
    const FileIdentity source = in.shards().front().file.identity();
    if (there && source == FileIdentity{info.st_dev, info.st_ino}) {
      return refuse("it is the input file, which would be overwritten");
    }
    return there && !interrupted
               ? absl::AlreadyExistsError(
                     fmt::format("cannot write {}: it already exists", out))
               : absl::OkStatus();
  }
  struct stat source = {};
  if (stat(in.path().c_str(), &source) != 0) return Failure("open", in.path());
  const auto resolved = Resolve(out);
  if (!resolved.ok()) return resolved.status();
  if (IsInside(*resolved, source)) {
    return refuse(
        fmt::format("it is the input directory {} or inside it", in.path()));
  }
  if (!there) return absl::OkStatus();
  if (!S_ISDIR(info.st_mode)) return refuse("it is not a directory");
  // Comes first, so that no error below suggests removing the input.
  if (IsInside(in.path(), info)) {
    return refuse(fmt::format(
        "the input directory {} is inside it; name another directory",
        in.path()));
  }
  std::error_code error;
  for (fs::recursive_directory_iterator i(out, error), end; !error && i != end;
       i.increment(error)) {
    if (!interrupted) {
      return absl::AlreadyExistsError(fmt::format(
          "cannot write {}: it has files that are not from an unfinished "
          "conversion; name another directory, or remove this one",
          out));
    }
    std::error_code gone;
    if (!i->is_symlink(gone)) continue;
    return refuse(fmt::format(
        "{} is a link, whose target would be overwritten; remove it",
        i->path().string()));
  }
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), fmt::format("cannot read {}", out));
}

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Open(
    const Model& in, const ConversionPlan& plan, const std::string& said,
    const std::string& fingerprint) {
  if (auto s = CheckOutput(in, said); !s.ok()) return s;
  const auto resolved = Resolve(said);
  if (!resolved.ok()) return resolved.status();
  const std::string& out = *resolved;
  std::unique_ptr<OutputDirectory> made(new OutputDirectory);
  made->in_ = &in;
  made->path_ = IsFile(in, out) ? FolderOf(out) : out;
  std::error_code error;
  made->made_ = fs::create_directories(made->path_, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot create {}", made->path_));
  }
  auto journal = Journal::Open(JournalOf(in, out), fingerprint);
  if (!journal.ok()) {
    if (made->made_) rmdir(made->path_.c_str());
    return journal.status();
  }
  made->journal_ = *std::move(journal);
  for (const OutputShard& shard : plan.shards) {
    const auto s = made->OpenShard(
        shard, IsFile(in, out) ? out : made->path_ + "/" + shard.name);
    if (!s.ok()) return made->Abandon(s);
  }
  return made;
}

OutputDirectory::~OutputDirectory() {
  for (const Shard& shard : shards_) {
    if (shard.fd >= 0) close(shard.fd);
  }
}

// Removes everything that this process created, unless it continues an earlier
// conversion. Returns `why`.
absl::Status OutputDirectory::Abandon(absl::Status why) {
  if (journal_->resumed()) return why;
  for (const Shard& shard : shards_) {
    if (shard.made) unlink((shard.path + std::string(kPartial)).c_str());
  }
  [[maybe_unused]] const auto removed = journal_->Remove();
  if (made_) rmdir(path_.c_str());
  return why;
}

absl::Status OutputDirectory::OpenShard(const OutputShard& planned,
                                        const std::string& path) {
  Shard shard;
  shard.path = path;
  const std::string draft = path + std::string(kPartial);
  // The earlier process was interrupted while Finish() renamed shards.
  if (journal_->resumed() && access(draft.c_str(), F_OK) != 0 &&
      access(path.c_str(), F_OK) == 0 &&
      std::rename(path.c_str(), draft.c_str()) != 0) {
    return Failure("rename", path);
  }
  shard.fd =
      open(draft.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (shard.fd < 0) return Failure("create", draft);
  shard.made = !journal_->resumed();
  shards_.push_back(shard);
  std::vector<safetensors::Tensor> tensors = planned.tensors;
  const auto head = safetensors::MakeHead(&tensors, planned.metadata);
  if (!head.ok()) return head.status();
  size_t end = head->size();
  for (const safetensors::Tensor& t : tensors) {
    places_[t.name] = {shards_.size() - 1, head->size() + t.offset, t.size};
    end = std::max(end, head->size() + t.offset + t.size);
  }
  // Other errors are ignored: the file system may not support fallocate.
  if (fallocate(shard.fd, 0, 0, static_cast<off_t>(end)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    const absl::Status full = Failure("write", draft);
    return absl::Status(full.code(),
                        fmt::format("{} (it needs {} bytes)",
                                    std::string(full.message()), end));
  }
  if (ftruncate(shard.fd, static_cast<off_t>(end)) != 0) {
    return Failure("write", draft);
  }
  const bool written = WriteAll(shard.fd, 0, std::as_bytes(std::span(*head)));
  return written ? absl::OkStatus() : Failure("write", draft);
}

absl::StatusOr<const OutputDirectory::Place*> OutputDirectory::Find(
    std::string_view tensor, size_t offset, size_t size) const {
  const auto found = places_.find(tensor);
  if (found == places_.end() || offset > found->second.size ||
      size > found->second.size - offset) {
    return absl::InternalError(fmt::format(
        "{} bytes at offset {} of tensor \"{}\" are not in the plan", size,
        offset, tensor));
  }
  return &found->second;
}

absl::Status OutputDirectory::Write(std::string_view tensor, size_t offset,
                                    absl::Span<const std::byte> bytes) {
  const auto place = Find(tensor, offset, bytes.size());
  if (!place.ok()) return place.status();
  const Shard& shard = shards_[(*place)->shard];
  if (WriteAll(shard.fd, (*place)->begin + offset, bytes)) {
    return absl::OkStatus();
  }
  return Failure("write", shard.path + std::string(kPartial));
}

absl::Status OutputDirectory::Read(std::string_view tensor, size_t offset,
                                   absl::Span<std::byte> bytes) const {
  const auto place = Find(tensor, offset, bytes.size());
  if (!place.ok()) return place.status();
  const Shard& shard = shards_[(*place)->shard];
  const std::string draft = shard.path + std::string(kPartial);
  const auto missing = ReadAll(shard.fd, (*place)->begin + offset, bytes);
  if (!missing) return Failure("read", draft);
  if (*missing == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{} was truncated", draft));
}

// Copies a file of the model unchanged.
absl::Status OutputDirectory::Carry(const std::string& name) const {
  const auto from = in_->folder().OpenFile(name);
  if (!from.ok()) return from.status();
  const std::string path = path_ + "/" + name;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  auto to = OutputFile::Create(path, from->identity());
  if (!to.ok()) return to.status();
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (size_t done = 0; done < from->size();) {
    const auto bytes = absl::MakeSpan(buffer).first(
        std::min(buffer.size(), from->size() - done));
    if (auto s = from->ReadAt(done, bytes); !s.ok()) return s;
    if (auto s = to->WriteAt(done, bytes); !s.ok()) return s;
    done += bytes.size();
  }
  return to->Commit();
}

absl::Status OutputDirectory::Finish(const std::vector<TextFile>& files) {
  // Precedes all renames. Otherwise, after a power failure, a shard could have
  // its final name without its bytes.
  for (const Shard& shard : shards_) {
    if (fsync(shard.fd) != 0) return Failure("write", shard.path);
  }
  for (const Shard& shard : shards_) {
    const std::string draft = shard.path + std::string(kPartial);
    if (std::rename(draft.c_str(), shard.path.c_str()) != 0) {
      return Failure("write", shard.path);
    }
  }
  if (!in_->single_file()) {
    for (const std::string& name : in_->others()) {
      const bool replaced = std::ranges::any_of(
          files, [&](const TextFile& f) { return f.name == name; });
      if (replaced) continue;
      if (auto s = Carry(name); !s.ok()) return s;
    }
  }
  for (const TextFile& file : files) {
    if (auto s = WriteTextFile(path_ + "/" + file.name, file.text); !s.ok()) {
      return s;
    }
  }
  SyncFolder(path_);
  return journal_->Remove();
}

}  // namespace quantd::checkpoint
