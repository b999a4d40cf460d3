// Fuzzes headers of npy files. Two bytes give the size of the data after it.
#include "client/files/npy.h"

#include <string>

#include "quantd/format.h"
#include "tests/fuzz/targets/memory_file.h"
#include "tests/fuzz/targets/target.h"

namespace quantd {
namespace {

void Judge(const npy::Header& header, size_t file_size) {
  using fuzz::Check;
  Check(header.dtype == DType::kF32 || header.dtype == DType::kF16,
        "a type that npy files do not have");
  size_t bytes = SizeOf(header.dtype);
  for (const int64_t d : header.shape) {
    Check(d >= 0, "a negative size");
    Check(!__builtin_mul_overflow(bytes, static_cast<size_t>(d), &bytes),
          "a shape that overflows");
  }
  Check(header.data_offset <= file_size &&
            bytes == file_size - header.data_offset,
        "a shape that does not match the file");
}

}  // namespace
}  // namespace quantd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::CheckRefusal;
  quantd::fuzz::Input input(data, size);
  const uint8_t mode = input.Byte();
  const size_t more = input.Byte() * size_t{256} + input.Byte();
  const std::string start(input.Rest());
  if (mode % 8 == 0) {
    static quantd::fuzz::MemoryFile memory;
    memory.Write(start + std::string(more, '\0'));
    const auto file = quantd::npy::File::Open(memory.path());
    if (!file.ok()) {
      CheckRefusal(file.status(), {absl::StatusCode::kInvalidArgument});
      return 0;
    }
    quantd::Judge(file->header(), start.size() + more);
    std::string bytes(file->size_bytes(), '\0');
    const auto status = file->Read(
        0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    quantd::fuzz::Check(status.ok(), status.ToString());
    return 0;
  }
  const auto header = quantd::npy::ParseHeader(start, start.size() + more);
  if (!header.ok()) {
    CheckRefusal(header.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  quantd::Judge(*header, start.size() + more);
  return 0;
}
