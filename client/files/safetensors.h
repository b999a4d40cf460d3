// Reads and writes .safetensors files. Input is not trusted.
//
// Layout: the length N of the header (8 bytes, little endian), N bytes of JSON,
// and the buffer with all tensors' bytes. The JSON maps each name to dtype,
// shape and data_offsets [begin, end) in the buffer, and "__metadata__" to a
// map of strings.
#ifndef QUANTD_CLIENT_FILES_SAFETENSORS_H_
#define QUANTD_CLIENT_FILES_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/file.h"

namespace quantd::safetensors {

// The limit of the format itself.
inline constexpr size_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxRank = 64;  // a limit of quantd

struct Tensor {
  std::string name;
  std::string dtype;  // as in the file: "BF16", "F8_E4M3", "U8"
  std::vector<int64_t> shape;
  size_t offset = 0;  // from the start of the buffer
  size_t size = 0;    // bytes
};

using Metadata = std::map<std::string, std::string>;

struct Header {
  std::vector<Tensor> tensors;  // by offset
  Metadata metadata;
};

// Bits of one element. 0 for an unknown dtype.
int BitsOf(std::string_view dtype);

// Parses the JSON. Returns INVALID_ARGUMENT for bad JSON, a duplicate name, a
// size that does not match the shape, overflow, and ranges that overlap, leave
// gaps or do not fill `buffer_size` exactly.
absl::StatusOr<Header> ParseHeader(std::string_view json, size_t buffer_size);

// Returns the length field and the header of a file with these tensors. Sets
// their offsets, without gaps. Returns INVALID_ARGUMENT if the header would be
// too long.
absl::StatusOr<std::string> MakeHead(std::vector<Tensor>* tensors,
                                     const Metadata& metadata);

// An open file. Movable. Several threads may call Read.
class File {
 public:
  // Reads and checks the header. Does not read the buffer. Errors name the
  // path.
  static absl::StatusOr<File> Open(const std::string& path);
  static absl::StatusOr<File> Open(absl::StatusOr<InputFile> opened);

  const std::vector<Tensor>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // Returns nullptr if there is no tensor of that name.
  const Tensor* Find(std::string_view name) const;
  // Fills `bytes` with the tensor's bytes from its byte `offset` on. Returns
  // DATA_LOSS if the file was truncated or written to since it was opened.
  absl::Status Read(const Tensor& tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;
  FileIdentity identity() const { return file_.identity(); }

 private:
  InputFile file_;
  Header header_;
  size_t buffer_ = 0;  // offset in the file
};

// Writes a file. Create announces all tensors. They are then written in any
// order, whole or in pieces. Not thread-safe. Movable.
class Writer {
 public:
  // Offsets in `planned` are ignored: the tensors are stored in this order.
  // Reserves disk space if the file system can.
  static absl::StatusOr<Writer> Create(OutputFile file,
                                       std::vector<Tensor> planned,
                                       Metadata metadata);
  static absl::StatusOr<Writer> Create(const std::string& path,
                                       std::vector<Tensor> planned,
                                       Metadata metadata);

  // Writes a whole tensor.
  absl::Status Append(std::string_view name, absl::Span<const std::byte> bytes);
  // Writes a tensor's bytes at its byte `offset`. Write each byte exactly once.
  absl::Status Write(std::string_view name, size_t offset,
                     absl::Span<const std::byte> bytes);
  // Renames the draft to the final path. Returns INTERNAL if a byte is missing.
  absl::Status Commit();

 private:
  struct Place {
    size_t begin = 0;  // in the file
    size_t size = 0;
    size_t missing = 0;  // bytes not yet written
  };
  OutputFile file_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace quantd::safetensors

#endif  // QUANTD_CLIENT_FILES_SAFETENSORS_H_
