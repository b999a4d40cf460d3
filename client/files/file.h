// Files as the tensor formats need them: read where they lie, written beside
// their final name and renamed when whole.
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

// The identity of a file: two paths, links and hard links of one file are
// equal.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// A regular file that is read in ranges. It is not mapped: what another program
// does to it while it is read is an error here, and no signal. Movable; ReadAt
// may be called from many threads.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file)
  // with the path in the message. Never waits, for a FIFO's writer neither.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  // An absolute path on which no link is followed, in its folders neither:
  // what was found to lie there, whatever was put in its place meanwhile.
  // `path` is what messages name.
  static absl::StatusOr<InputFile> OpenUnlinked(const std::string& real,
                                                const std::string& path);

  InputFile() = default;
  InputFile(InputFile&& other) noexcept { *this = std::move(other); }
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  FileIdentity identity() const { return identity_; }
  // All of `bytes`. DATA_LOSS when the file was truncated or written to since
  // it was opened; errors name the path.
  absl::Status ReadAt(size_t offset, absl::Span<std::byte> bytes) const;

 private:
  // Takes the descriptor; of -1, errno tells why.
  static absl::StatusOr<InputFile> Take(int fd, const std::string& path);

  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
  timespec changed_ = {};
  FileIdentity identity_;
};

// A file being written. Until Commit the final name does not exist, or holds
// what it held before; without Commit nothing is left behind, and what a
// program that was killed left is removed by the next one that writes the same
// file. Movable.
//
// Only regular files are replaced. What is written to a FIFO or a character
// device is kept in a temporary file without a name and goes there on Commit,
// in one go. Links are followed.
class OutputFile {
 public:
  // INVALID_ARGUMENT for a directory, a block device, a socket, a terminal, a
  // FIFO that nobody reads, a link to nothing, and for what is `source` by
  // whatever name.
  static absl::StatusOr<OutputFile> Create(
      const std::string& path, std::optional<FileIdentity> source = {});
  // To an open descriptor, standard output for example, on Commit; takes it.
  static absl::StatusOr<OutputFile> ToStream(
      int fd, const std::string& name, std::optional<FileIdentity> source = {});

  // Removes the drafts of all files that this process is writing. None is made
  // or committed any more, and who tries waits for ever: for a process that is
  // about to end.
  static void AbandonAll();

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::string& path() const { return path_; }
  // Takes the room for so many bytes now, where the file system can, so that a
  // full disk is found before the work is done.
  absl::Status Reserve(size_t bytes);
  absl::Status WriteAt(size_t offset, absl::Span<const std::byte> bytes);
  absl::Status Commit();
  // All that the file shall hold, and Commit.
  absl::Status CommitText(std::string_view text);

 private:
  absl::Status Settle();
  absl::Status OpenDraft();
  absl::Status OpenStream();
  absl::Status Stage();
  absl::Status Pour();
  absl::Status Failure(const char* what) const;
  void Drop();

  std::string path_;   // as the caller said it
  std::string final_;  // where links lead; empty: a stream
  std::string draft_;  // empty: none
  int fd_ = -1;        // what is written to
  int stream_ = -1;    // where it goes on Commit, if no file
  size_t size_ = 0;
  mode_t mode_ = 0666;  // of the file that is replaced, or the usual
  bool replaces_ = false;
  std::optional<FileIdentity> source_;
};

// A file of that text, whole or not at all.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FILE_H_
