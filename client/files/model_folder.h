// A model's folder, and which files reachable from it belong to the model:
// untrusted links must not copy other files of this machine into the output.
#ifndef QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
#define QUANTD_CLIENT_FILES_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/files/file.h"

namespace quantd {

// Names are relative and sorted; folders end with a '/'.
struct Listing {
  // Everything that is not a folder, including links.
  std::vector<std::string> files;
  std::vector<std::string> folders;
  // Files and folders whose names begin with a dot. These folders are not
  // entered.
  std::vector<std::string> hidden;
  // Folders that cannot be read, one sentence each.
  std::vector<std::string> unread;
};

// Movable. OpenFile may be called from many threads.
class ModelFolder {
 public:
  // The directory itself may be reached through links.
  static absl::StatusOr<ModelFolder> Open(const std::string& path);

  // An empty folder.
  ModelFolder() = default;

  // INVALID_ARGUMENT if there are more files or levels than any model has.
  absl::StatusOr<Listing> List() const;

  // Opens a file by its name in List. NOT_FOUND if it does not exist.
  // INVALID_ARGUMENT if it is something else; the message says what, and what
  // to do. A link must lead to a regular file in this folder, or in `blobs` if
  // this is a snapshot in a Hugging Face Hub cache:
  // models--ORG--NAME/snapshots/REVISION.
  absl::StatusOr<InputFile> OpenFile(const std::string& name) const;

 private:
  bool Holds(const std::string& real) const;

  std::string path_;   // as the caller gave it
  std::string root_;   // resolved; empty: no folder
  std::string blobs_;  // its blobs, resolved; empty: not in a cache
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
