// .npy files of fp32 and fp16 in C order, versions 1 to 3 of the format.
//
// Layout: "\x93NUMPY", major, minor, the header's length (2 bytes in version
// 1, else 4, little endian), a Python dict literal, the elements.
#ifndef QUANTD_CLIENT_NPY_H_
#define QUANTD_CLIENT_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/file.h"
#include "kernels/format.h"

namespace quantd::npy {

inline constexpr size_t kMaxHeaderBytes = 64 << 10;
inline constexpr size_t kMaxRank = 64;

struct Header {
  DType dtype = DType::kUnspecified;  // kF32 or kF16
  std::vector<int64_t> shape;         // empty: a scalar
  size_t data_offset = 0;             // from the start of the file
};

// The header at the start of `file`, the whole file. INVALID_ARGUMENT for a
// header that is malformed, an element type other than '<f4' and '<f2',
// Fortran order, or a shape whose bytes are not exactly those that follow.
absl::StatusOr<Header> ParseHeader(std::string_view file);

// An open file. Movable.
class File {
 public:
  // Errors name the path.
  static absl::StatusOr<File> Open(const std::string& path);
  const Header& header() const { return header_; }
  absl::Span<const std::byte> bytes() const {
    return file_.bytes().subspan(header_.data_offset);
  }

 private:
  MappedFile file_;
  Header header_;
};

// Writes version 1. INVALID_ARGUMENT for a type numpy does not know (bf16) or
// bytes that are not the shape's.
absl::Status Write(const std::string& path, DType dtype,
                   absl::Span<const int64_t> shape,
                   absl::Span<const std::byte> bytes);

}  // namespace quantd::npy

#endif  // QUANTD_CLIENT_NPY_H_
