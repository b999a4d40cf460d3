// .safetensors files: reading with nothing trusted, writing in one pass.
//
// Layout: 8 bytes little endian N, N bytes of JSON, one buffer. The JSON maps
// names to {dtype, shape, data_offsets [begin, end) in the buffer}, and
// "__metadata__" to strings.
#ifndef QUANTD_CLIENT_SAFETENSORS_H_
#define QUANTD_CLIENT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/file.h"

namespace quantd::safetensors {

inline constexpr size_t kMaxHeaderBytes = 100'000'000;  // the format's own
inline constexpr size_t kMaxRank = 64;                  // ours

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

// Bits of one element; 0 for a name the format does not have.
int BitsOf(std::string_view dtype);

// The JSON alone. Whatever is wrong with it is INVALID_ARGUMENT: bad JSON, a
// name twice, a size that is not the shape's, overflow, ranges that overlap,
// leave holes or do not fill `buffer_size` exactly.
absl::StatusOr<Header> ParseHeader(std::string_view json, size_t buffer_size);

// An open file. Movable; what it hands out lives as long as it does.
class File {
 public:
  // Reads and checks the header, not the buffer. Errors name the path.
  static absl::StatusOr<File> Open(const std::string& path);

  const std::vector<Tensor>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // nullptr when there is none of that name.
  const Tensor* Find(std::string_view name) const;
  absl::Span<const std::byte> bytes(const Tensor& tensor) const;

 private:
  MappedFile file_;
  Header header_;
  size_t buffer_ = 0;  // offset in the file
};

// Writes a file whose tensors are announced first and then appended in any
// order, as they come to be. One that is announced and never appended is left
// out of the file, so that a failure in the middle spoils only its tensor.
// Not thread-safe; movable.
class Writer {
 public:
  // `planned` needs no offsets.
  static absl::StatusOr<Writer> Create(const std::string& path,
                                       std::vector<Tensor> planned,
                                       Metadata metadata);

  absl::Status Append(std::string_view name, absl::Span<const std::byte> bytes);
  // Takes back a metadata entry, for a tensor that did not come to be.
  void DropMetadata(const std::string& key) { metadata_.erase(key); }
  // Writes the header; only now the file has its name.
  absl::Status Commit();

 private:
  OutputFile file_;
  std::map<std::string, Tensor, std::less<>> planned_;
  std::vector<Tensor> written_;
  Metadata metadata_;
  size_t header_room_ = 0;  // bytes kept for the JSON
  size_t buffer_size_ = 0;
};

}  // namespace quantd::safetensors

#endif  // QUANTD_CLIENT_SAFETENSORS_H_
