#include "client/files/model_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "fmt/format.h"

namespace quantd {
namespace {

namespace fs = std::filesystem;

absl::Status Failure(const std::error_code& error, std::string_view what,
                     const std::string& path) {
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot {} {}", what, path));
}

absl::Status Refusal(const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{} is {}", path, why));
}

std::string_view KindOf(mode_t mode) {
  return S_ISDIR(mode)    ? "directory"
         : S_ISREG(mode)  ? "file"
         : S_ISFIFO(mode) ? "FIFO"
         : S_ISSOCK(mode) ? "socket"
                          : "device";
}

}  // namespace

absl::StatusOr<ModelFolder> ModelFolder::Open(const std::string& path) {
  ModelFolder folder;
  folder.path_ = path;
  std::error_code error;
  const fs::path root = fs::canonical(path, error);
  if (error) return Failure(error, "open", path);
  folder.root_ = root.string();
  // A part of a model, a text encoder for example, is a folder of the snapshot.
  for (fs::path at = root; at.has_relative_path(); at = at.parent_path()) {
    const fs::path above = at.parent_path();
    if (above.filename() != "snapshots") continue;
    folder.blobs_ = (above.parent_path() / "blobs").string();
    break;
  }
  return folder;
}

absl::StatusOr<std::vector<std::string>> ModelFolder::List(
    std::vector<std::string>* notes) const {
  std::vector<std::string> names;
  std::vector<std::string> folders;
  const auto read = [&](const std::string& prefix) {
    std::error_code error;
    for (fs::directory_iterator i(fs::path(root_) / prefix, error), end;
         !error && i != end; i.increment(error)) {
      const std::string name = prefix + i->path().filename().string();
      std::error_code gone;
      if (i->symlink_status(gone).type() != fs::file_type::directory) {
        names.push_back(name);
      } else if (prefix.empty() && name.front() != '.') {
        folders.push_back(name + "/");
      }
    }
    return error;
  };
  if (const auto error = read("")) return Failure(error, "read", path_);
  for (const std::string& folder : folders) {
    const auto error = read(folder);
    if (!error) continue;
    notes->push_back(fmt::format(
        "{} cannot be read and is left out ({}): make it readable if it is of "
        "the model",
        folder, error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// By whole names: /a/model2 is not in /a/model.
bool ModelFolder::Holds(const std::string& real) const {
  for (const std::string& base : {root_, blobs_}) {
    if (base.empty()) continue;
    if ((real + "/").starts_with(base == "/" ? base : base + "/")) return true;
  }
  return false;
}

absl::StatusOr<InputFile> ModelFolder::OpenFile(const std::string& name) const {
  const std::string said = path_ + "/" + name;
  if (root_.empty()) {
    return absl::NotFoundError(fmt::format("{}: no folder to hold it", name));
  }
  const fs::path place = fs::path(root_) / name;
  std::error_code error;
  const std::string real = fs::canonical(place, error).string();
  if (error.value() == ELOOP) {
    return Refusal(said, "one of a loop of links; remove it");
  }
  if (error.value() == ENOENT) {
    std::error_code none;
    const fs::path target = fs::read_symlink(place, none);
    if (!none) {
      return Refusal(said,
                     fmt::format("a link to {}, which is not there; fetch that "
                                 "file again or remove the link",
                                 target.string()));
    }
  }
  struct stat info = {};
  if (!error && stat(real.c_str(), &info) != 0) {
    error.assign(errno, std::generic_category());
  }
  if (error) return Failure(error, "open", said);
  if (S_ISREG(info.st_mode) && Holds(real)) {
    return InputFile::OpenUnlinked(real, said);
  }
  const std::string_view kind = KindOf(info.st_mode);
  if (real == place) {
    return Refusal(said, fmt::format("a {} and no file; remove it", kind));
  }
  return Refusal(
      said, fmt::format("a link to the {} {}{}; replace it by a "
                        "copy or remove it",
                        kind, real, Holds(real) ? "" : ", outside the model"));
}

}  // namespace quantd
