// File access for the tensor formats: reads at any offset, and writes to a
// draft that is renamed when complete.
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

// Identity of a file. Two paths or links to the same file have the same
// identity.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Writes all bytes at `offset`, or without one at the descriptor's position.
// Returns false on failure, with errno set.
bool WriteAll(int fd, std::optional<size_t> offset,
              absl::Span<const std::byte> bytes);
// Fills `bytes` from `offset` on. Returns the bytes that the file lacks, or
// nullopt on failure, with errno set.
std::optional<size_t> ReadAll(int fd, size_t offset,
                              absl::Span<std::byte> bytes);

// A regular file that is read in ranges. It is not mapped into memory, so that
// changes by other programs cause an error instead of a signal. Movable.
// Several threads may call ReadAt.
class InputFile {
 public:
  // Returns NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular
  // file), with the path in the message. Never blocks, not even on a FIFO
  // without a writer.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  // Opens the absolute path `real` without following links, not even links in
  // its folders. If a folder was replaced by a link after `real` was resolved,
  // opening fails. Messages show `path`.
  static absl::StatusOr<InputFile> OpenUnlinked(const std::string& real,
                                                const std::string& path);

  InputFile() = default;
  InputFile(InputFile&& other) noexcept { *this = std::move(other); }
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  FileIdentity identity() const { return identity_; }
  // Fills all of `bytes`. Returns DATA_LOSS if the file was truncated or
  // written to since it was opened. Errors name the path.
  absl::Status ReadAt(size_t offset, absl::Span<std::byte> bytes) const;

 private:
  // Takes ownership of the descriptor. If it is -1, errno has the reason.
  static absl::StatusOr<InputFile> Take(int fd, const std::string& path);

  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
  timespec changed_ = {};
  FileIdentity identity_;
};

// A file being written. Until Commit, the final path does not exist or keeps
// its old content. Without Commit, the draft is deleted. If the program is
// killed, the next program that writes the same file deletes the draft.
// Movable.
//
// Only regular files are replaced. Data for a FIFO or a character device is
// collected in an unnamed temporary file, and Commit copies it. Links are
// followed.
class OutputFile {
 public:
  // Returns INVALID_ARGUMENT for a directory, a block device, a socket, a
  // terminal, a FIFO without a reader, a dangling link, and any path of the
  // file `source`.
  static absl::StatusOr<OutputFile> Create(
      const std::string& path, std::optional<FileIdentity> source = {});
  // Creates a file that Commit writes to an open descriptor, such as standard
  // output. Takes ownership of the descriptor.
  static absl::StatusOr<OutputFile> ToStream(
      int fd, const std::string& name, std::optional<FileIdentity> source = {});

  // Removes the drafts of all files that this process is writing. From then on,
  // creating or committing a file blocks forever. For a process about to exit.
  static void AbandonAll();

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::string& path() const { return path_; }
  // Reserves disk space, if the file system can. A full disk is then found
  // before the work is done.
  absl::Status Reserve(size_t bytes);
  absl::Status WriteAt(size_t offset, absl::Span<const std::byte> bytes);
  absl::Status Commit();

 private:
  absl::Status Settle();
  absl::Status OpenDraft();
  absl::Status OpenStream();
  absl::Status Stage();
  absl::Status Pour();
  absl::Status Failure(const char* what) const;
  void Drop();

  std::string path_;   // as the caller gave it
  std::string final_;  // after following links; empty for a stream
  std::string draft_;  // empty if there is no draft
  int fd_ = -1;        // the draft or temporary file
  int stream_ = -1;    // the stream that Commit writes to, if any
  size_t size_ = 0;
  mode_t mode_ = 0666;  // mode of the replaced file, or the default
  bool replaces_ = false;
  std::optional<FileIdentity> source_;
};

// Writes `text` as the whole content of a file. A failure leaves the file as it
// was.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FILE_H_
