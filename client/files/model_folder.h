// The folder of a model, and which of what it leads to is the model's: files
// that come from strangers must not make others of this machine part of what is
// written.
#ifndef QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
#define QUANTD_CLIENT_FILES_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/files/file.h"

namespace quantd {

// Names are relative and sorted; those of folders end with a '/'.
struct Listing {
  // Whatever is no folder, links among it.
  std::vector<std::string> files;
  std::vector<std::string> folders;
  // Files and folders whose name begins with a dot. They are not entered.
  std::vector<std::string> hidden;
  // Folders that cannot be read, a sentence each.
  std::vector<std::string> unread;
};

// Movable. OpenFile may be called from many threads.
class ModelFolder {
 public:
  // The directory itself may be reached by links.
  static absl::StatusOr<ModelFolder> Open(const std::string& path);

  // No folder: there is no file in it.
  ModelFolder() = default;

  // INVALID_ARGUMENT: more folders within each other, or more files, than a
  // model has.
  absl::StatusOr<Listing> List() const;

  // A file by its name in List. NOT_FOUND if it does not exist.
  // INVALID_ARGUMENT says what else is there and what to do about it. A link is
  // followed to a regular file in this folder, or in `blobs` where this is a
  // snapshot in a cache of the Hugging Face Hub:
  // models--ORG--NAME/snapshots/REVISION.
  absl::StatusOr<InputFile> OpenFile(const std::string& name) const;

 private:
  bool Holds(const std::string& real) const;

  std::string path_;   // as the caller said it
  std::string root_;   // without links; empty: no folder
  std::string blobs_;  // the same; empty: no cache
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FOLDER_H_
