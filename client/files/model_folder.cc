#include "client/files/model_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/files/shown_name.h"
#include "fmt/format.h"

namespace quantd {
namespace {

namespace fs = std::filesystem;

absl::Status Failure(const std::error_code& error, std::string_view what,
                     const std::string& path) {
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot {} {}", what, path));
}

// Real models have three levels and some hundred files.
constexpr int kMostDeep = 16;
constexpr size_t kMostFiles = size_t{1} << 16;

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
  // The opened folder may lie inside the snapshot, as a text encoder's does.
  for (fs::path at = root; at.has_relative_path(); at = at.parent_path()) {
    const fs::path above = at.parent_path();
    if (above.filename() != "snapshots") continue;
    folder.blobs_ = (above.parent_path() / "blobs").string();
    break;
  }
  return folder;
}

absl::StatusOr<Listing> ModelFolder::List() const {
  Listing out;
  // Folders to read, and their depths.
  std::vector<std::pair<std::string, int>> todo = {{"", 0}};
  size_t count = 0;
  while (!todo.empty()) {
    const auto [prefix, depth] = todo.back();
    todo.pop_back();
    if (depth > kMostDeep) {
      return Refusal(
          path_ + "/" + ShownName(prefix),
          fmt::format("a folder nested in more than {} others, deeper than "
                      "any model; remove it",
                      kMostDeep));
    }
    std::error_code error;
    for (fs::directory_iterator i(fs::path(root_) / prefix, error), end;
         !error && i != end; i.increment(error)) {
      if (++count > kMostFiles) {
        return Refusal(path_, fmt::format("a folder of more than {} files and "
                                          "folders, more than any model has; "
                                          "remove those of other models",
                                          kMostFiles));
      }
      const std::string own = i->path().filename().string();
      std::error_code gone;
      const bool folder =
          i->symlink_status(gone).type() == fs::file_type::directory;
      const std::string name = prefix + own + (folder ? "/" : "");
      if (own.front() == '.') {
        out.hidden.push_back(name);
      } else if (folder) {
        out.folders.push_back(name);
        todo.push_back({name, depth + 1});
      } else {
        out.files.push_back(name);
      }
    }
    if (!error) continue;
    if (prefix.empty()) return Failure(error, "read", path_);
    out.unread.push_back(fmt::format(
        "{} cannot be read and is left out ({}): make it readable if the model "
        "needs it",
        ShownName(prefix), error.message()));
  }
  for (auto* names : {&out.files, &out.folders, &out.hidden, &out.unread}) {
    std::ranges::sort(*names);
  }
  return out;
}

// Paths end with '/' for the comparison: /a/model2 is not in /a/model.
bool ModelFolder::Holds(const std::string& real) const {
  for (const std::string& base : {root_, blobs_}) {
    if (base.empty()) continue;
    if ((real + "/").starts_with(base == "/" ? base : base + "/")) return true;
  }
  return false;
}

absl::StatusOr<InputFile> ModelFolder::OpenFile(const std::string& name) const {
  const std::string said = path_ + "/" + ShownName(name);
  if (root_.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: the model has no folder", ShownName(name)));
  }
  const fs::path place = fs::path(root_) / name;
  std::error_code error;
  const std::string real = fs::canonical(place, error).string();
  if (error.value() == ELOOP) {
    return Refusal(said, "part of a loop of links; remove it");
  }
  if (error.value() == ENOENT) {
    std::error_code none;
    const fs::path target = fs::read_symlink(place, none);
    if (!none) {
      return Refusal(said,
                     fmt::format("a link to {}, which does not exist; fetch "
                                 "that file again or remove the link",
                                 ShownName(target.string())));
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
    return Refusal(said,
                   fmt::format("a {} instead of a file; remove it", kind));
  }
  return Refusal(said, fmt::format("a link to the {} {}{}; replace it by a "
                                   "copy or remove it",
                                   kind, ShownName(real),
                                   Holds(real) ? "" : ", outside the model"));
}

}  // namespace quantd
