// Files as the tensor formats need them: read by mapping, written beside their
// final name and renamed when whole.
#ifndef QUANTD_CLIENT_FILE_H_
#define QUANTD_CLIENT_FILE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd {

// A regular file, mapped read-only: its pages are the kernel's, so a large
// file is never held twice. A file that another program truncates while it is
// mapped kills the reader with SIGBUS. Movable.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file)
  // with the path in the message.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file being written. Until Commit the final name does not exist, or holds
// what it held before; without Commit nothing is left behind. Movable.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  absl::Status WriteAt(size_t offset, absl::Span<const std::byte> bytes);
  absl::Status Commit();

 private:
  std::string path_;
  std::string partial_;
  int fd_ = -1;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILE_H_
