// .npy files of fp32 and fp16 in C order, versions 1 to 3 of the format.
//
// Layout: "\x93NUMPY", major, minor, the header's length (2 bytes in version
// 1, else 4, little endian), a Python dict literal, the elements.
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
  std::vector<int64_t> shape;         // empty: a scalar
  size_t data_offset = 0;             // from the start of the file
};

// The header of a file of `file_size` bytes that begins with `start`, which
// holds all of the header. INVALID_ARGUMENT for a header that is malformed, an
// element type other than '<f4' and '<f2', Fortran order, or a shape whose
// bytes are not exactly those that follow.
absl::StatusOr<Header> ParseHeader(std::string_view start, size_t file_size);

// An open file. Movable; Read may be called from many threads.
class File {
 public:
  // Errors name the path.
  static absl::StatusOr<File> Open(const std::string& path);
  const Header& header() const { return header_; }
  // The type of the elements.
  size_t size_bytes() const { return file_.size() - header_.data_offset; }
  // `bytes` of the elements', from `offset` on. DATA_LOSS when the file was
  // truncated or written to since it was opened.
  absl::Status Read(size_t offset, absl::Span<std::byte> bytes) const {
    return file_.ReadAt(header_.data_offset + offset, bytes);
  }
  FileIdentity identity() const { return file_.identity(); }

 private:
  InputFile file_;
  Header header_;
};

// Writes version 1. Not thread-safe; movable.
class Writer {
 public:
  // INVALID_ARGUMENT for a type numpy does not know (bf16).
  static absl::StatusOr<Writer> Create(OutputFile file, DType dtype,
                                       absl::Span<const int64_t> shape);
  // Some elements, from byte `offset` of them on; every byte once.
  absl::Status Write(size_t offset, absl::Span<const std::byte> bytes);
  // Only now the file has its name. INTERNAL when bytes were not written.
  absl::Status Commit();

 private:
  OutputFile file_;
  size_t begin_ = 0;  // of the elements
  size_t size_ = 0;
  size_t missing_ = 0;
};

// A whole file. INVALID_ARGUMENT also for bytes that are not the shape's.
absl::Status Write(const std::string& path, DType dtype,
                   absl::Span<const int64_t> shape,
                   absl::Span<const std::byte> bytes);

}  // namespace quantd::npy

#endif  // QUANTD_CLIENT_FILES_NPY_H_
