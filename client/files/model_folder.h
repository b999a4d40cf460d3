// A model's folder, and the files reachable from it that belong to the model.
// OpenFile checks links, so that an untrusted one cannot bring another file of
// this machine into the output.
#ifndef QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
#define QUANTD_CLIENT_FILES_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/files/file.h"

namespace quantd {

// The content of a folder. Names are relative and sorted. Names of folders end
// with '/'.
struct Listing {
  // Everything that is not a folder, including links.
  std::vector<std::string> files;
  std::vector<std::string> folders;
  // Files and folders whose names begin with a dot. Their content is not
  // listed.
  std::vector<std::string> hidden;
  // One sentence for each folder that cannot be read.
  std::vector<std::string> unread;
};

// A folder opened for reading. Movable. Several threads may call OpenFile.
class ModelFolder {
 public:
  // `path` may lead through links.
  static absl::StatusOr<ModelFolder> Open(const std::string& path);

  // A folder without files.
  ModelFolder() = default;

  // Lists all files. Returns INVALID_ARGUMENT if there are more files or levels
  // than any model has.
  absl::StatusOr<Listing> List() const;

  // Opens a file by its name in Listing. Returns NOT_FOUND if it does not
  // exist, and INVALID_ARGUMENT if it is not a file; the message says what it
  // is and what to do. A link must lead to a regular file in this folder, or in
  // `blobs` if the folder is a snapshot in a Hugging Face Hub cache:
  // models--ORG--NAME/snapshots/REVISION.
  absl::StatusOr<InputFile> OpenFile(const std::string& name) const;

 private:
  bool Holds(const std::string& real) const;

  std::string path_;   // as the caller gave it
  std::string root_;   // resolved; empty: no folder
  std::string blobs_;  // the cache's blobs, resolved; empty: not in a cache
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
