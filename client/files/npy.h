// .npy files of fp32 and fp16 in C order, versions 1 to 3 of the format.
//
// Layout: "\x93NUMPY", major version, minor version, length of the header
// (little endian, 2 bytes in version 1, 4 bytes in later versions), a Python
// dict literal as the header, the elements.
#ifndef QUANTD_CLIENT_FILES_NPY_H_
#define QUANTD_CLIENT_FILES_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/file.h"
#include "quantd/format.h"

namespace quantd::npy {

inline constexpr size_t kMaxHeaderBytes = 64 << 10;
inline constexpr size_t kMaxRank = 64;

struct Header {
  DType dtype = DType::kUnspecified;  // kF32 or kF16
  std::vector<int64_t> shape;         // empty for a scalar
  size_t data_offset = 0;             // from the start of the file
};

// Parses the header of a file of `file_size` bytes. `start` is the beginning of
// the file and must contain the whole header. Returns INVALID_ARGUMENT for a
// malformed header, an element type other than '<f4' and '<f2', Fortran order,
// or a shape that does not match the size of the data exactly.
absl::StatusOr<Header> ParseHeader(std::string_view start, size_t file_size);

// An open file. Movable. Several threads may call Read.
class File {
 public:
  // Errors name the path.
  static absl::StatusOr<File> Open(const std::string& path);
  const Header& header() const { return header_; }
  // Size of the elements in bytes.
  size_t size_bytes() const { return file_.size() - header_.data_offset; }
  // Fills `bytes` with the elements' bytes from byte `offset` on. Returns
  // DATA_LOSS if the file was truncated or written to since it was opened.
  absl::Status Read(size_t offset, absl::Span<std::byte> bytes) const {
    return file_.ReadAt(header_.data_offset + offset, bytes);
  }
  FileIdentity identity() const { return file_.identity(); }

 private:
  InputFile file_;
  Header header_;
};

// Writes a file of format version 1. Not thread-safe. Movable.
class Writer {
 public:
  // Returns INVALID_ARGUMENT for bf16, which numpy does not have.
  static absl::StatusOr<Writer> Create(OutputFile file, DType dtype,
                                       absl::Span<const int64_t> shape);
  // Writes the elements' bytes at byte `offset`. Write each byte exactly once.
  absl::Status Write(size_t offset, absl::Span<const std::byte> bytes);
  // Renames the draft to the final path. Returns INTERNAL if bytes are missing.
  absl::Status Commit();

 private:
  OutputFile file_;
  size_t begin_ = 0;  // start of the elements
  size_t size_ = 0;
  size_t missing_ = 0;
};

// Writes a whole file. Returns INVALID_ARGUMENT for bf16, or if the number of
// bytes does not match the shape.
absl::Status Write(const std::string& path, DType dtype,
                   absl::Span<const int64_t> shape,
                   absl::Span<const std::byte> bytes);

}  // namespace quantd::npy

#endif  // QUANTD_CLIENT_FILES_NPY_H_
