// File access for the tensor formats: random reads, and writes to a draft that
// is renamed when complete.
#ifndef QUANTD_CLIENT_FILES_FILE_H_
#define QUANTD_CLIENT_FILES_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd {

// Identity of a file: equal for two paths, links or hard links to one file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// A regular file read in ranges. It is not mapped, so that changes by other
// programs cause an error instead of a signal. Movable; ReadAt may be called
// from many threads.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file), with
  // the path in the message. Never waits, not even for a FIFO's writer.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  // Opens an absolute path without following any link, also not in its folders:
  // gets the file that was found there, even if a link has been put in its
  // place. Messages show `path`.
  static absl::StatusOr<InputFile> OpenUnlinked(const std::string& real,
                                                const std::string& path);

  InputFile() = default;
  InputFile(InputFile&& other) noexcept { *this = std::move(other); }
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  FileIdentity identity() const { return identity_; }
  // Reads all of `bytes`. DATA_LOSS if the file was truncated or written to
  // since it was opened; errors name the path.
  absl::Status ReadAt(size_t offset, absl::Span<std::byte> bytes) const;

 private:
  // Takes ownership of the descriptor; for -1, errno tells why.
  static absl::StatusOr<InputFile> Take(int fd, const std::string& path);

  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
  timespec changed_ = {};
  FileIdentity identity_;
};

// A file being written. Until Commit the final name does not exist or keeps its
// old content. Without Commit nothing is left; a draft left by a killed program
// is removed by the next one that writes the same file. Movable.
//
// Only regular files are replaced. Data for a FIFO or a character device is
// collected in an unnamed temporary file and written on Commit. Links are
// followed.
class OutputFile {
 public:
  // INVALID_ARGUMENT for a directory, a block device, a socket, a terminal, a
  // FIFO without a reader, a dangling link, and for any name of `source`.
  static absl::StatusOr<OutputFile> Create(
      const std::string& path, std::optional<FileIdentity> source = {});
  // Writes to an open descriptor, such as standard output, on Commit. Takes
  // ownership of it.
  static absl::StatusOr<OutputFile> ToStream(
      int fd, const std::string& name, std::optional<FileIdentity> source = {});

  // Removes the drafts of all files that this process is writing. From then on
  // creating or committing one blocks for ever: for a process that is about to
  // exit.
  static void AbandonAll();

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::string& path() const { return path_; }
  // Reserves disk space, if the file system can, so that a full disk is found
  // before the work is done.
  absl::Status Reserve(size_t bytes);
  absl::Status WriteAt(size_t offset, absl::Span<const std::byte> bytes);
  absl::Status Commit();
  // Writes all content of the file, and commits.
  absl::Status CommitText(std::string_view text);

 private:
  absl::Status Settle();
  absl::Status OpenDraft();
  absl::Status OpenStream();
  absl::Status Stage();
  absl::Status Pour();
  absl::Status Failure(const char* what) const;
  void Drop();

  std::string path_;   // as the caller gave it
  std::string final_;  // after following links; empty: a stream
  std::string draft_;  // empty: none
  int fd_ = -1;        // the draft or temporary file
  int stream_ = -1;    // destination on Commit, unless a file
  size_t size_ = 0;
  mode_t mode_ = 0666;  // mode of the replaced file, or the default
  bool replaces_ = false;
  std::optional<FileIdentity> source_;
};

// Writes a whole file, or nothing.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FILE_H_
