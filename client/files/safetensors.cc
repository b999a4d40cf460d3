#include "client/files/safetensors.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "client/files/foreign_format.h"
#include "fmt/format.h"

namespace quantd::safetensors {
namespace {

constexpr size_t kLengthBytes = 8;

std::string HeaderJson(const std::vector<Tensor>& tensors,
                       const Metadata& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const Tensor& t : tensors) {
    json[t.name] = {{"dtype", t.dtype},
                    {"shape", t.shape},
                    {"data_offsets", {t.offset, t.offset + t.size}}};
  }
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  for (char& b : bytes) {
    b = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> MakeHead(std::vector<Tensor>* tensors,
                                     const Metadata& metadata) {
  size_t total = 0;
  for (Tensor& t : *tensors) {
    t.offset = total;
    total += t.size;
  }
  std::string json = HeaderJson(*tensors, metadata);
  // The buffer begins at a multiple of 64.
  json.resize((kLengthBytes + json.size() + 63) / 64 * 64 - kLengthBytes, ' ');
  if (json.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError("too many tensors for one file");
  }
  return LittleEndian(json.size()) + json;
}

absl::StatusOr<File> File::Open(const std::string& path) {
  return Open(InputFile::Open(path));
}

absl::StatusOr<File> File::Open(absl::StatusOr<InputFile> opened) {
  if (!opened.ok()) return opened.status();
  const size_t size = opened->size();
  const auto bad = [&](const std::string& why) {
    const std::string other = ForeignFormat(*opened);
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", opened->path(), other.empty() ? why : other));
  };
  if (size < kLengthBytes) {
    return bad(
        fmt::format("{} bytes are too few for a safetensors file", size));
  }
  std::byte prefix[kLengthBytes];
  if (auto s = opened->ReadAt(0, absl::MakeSpan(prefix)); !s.ok()) return s;
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(prefix[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return bad(fmt::format("header of {} bytes, over the format's limit of {}",
                           length, kMaxHeaderBytes));
  }
  if (length > size - kLengthBytes) {
    return bad(fmt::format("header of {} bytes in a file of {}; truncated?",
                           length, size));
  }
  std::string json(length, '\0');
  const absl::Span<std::byte> room(reinterpret_cast<std::byte*>(json.data()),
                                   json.size());
  if (auto s = opened->ReadAt(kLengthBytes, room); !s.ok()) return s;
  File file;
  file.buffer_ = kLengthBytes + length;
  auto header = ParseHeader(json, size - file.buffer_);
  if (!header.ok()) return bad(std::string(header.status().message()));
  file.header_ = *std::move(header);
  file.file_ = *std::move(opened);
  return file;
}

const Tensor* File::Find(std::string_view name) const {
  for (const Tensor& t : header_.tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

absl::Status File::Read(const Tensor& tensor, size_t offset,
                        absl::Span<std::byte> bytes) const {
  if (offset > tensor.size || bytes.size() > tensor.size - offset) {
    return absl::OutOfRangeError(
        fmt::format("{}: {} bytes from byte {} of a tensor of {}", file_.path(),
                    bytes.size(), offset, tensor.size));
  }
  return file_.ReadAt(buffer_ + tensor.offset + offset, bytes);
}

absl::StatusOr<Writer> Writer::Create(const std::string& path,
                                      std::vector<Tensor> planned,
                                      Metadata metadata) {
  auto file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  return Create(*std::move(file), std::move(planned), std::move(metadata));
}

absl::StatusOr<Writer> Writer::Create(OutputFile file,
                                      std::vector<Tensor> planned,
                                      Metadata metadata) {
  const auto head = MakeHead(&planned, metadata);
  if (!head.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}", file.path(), std::string(head.status().message())));
  }
  size_t end = head->size();
  Writer writer;
  for (const Tensor& t : planned) {
    const Place place = {head->size() + t.offset, t.size, t.size};
    end += t.size;
    if (!writer.places_.emplace(t.name, place).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: two tensors are named \"{}\"", file.path(), t.name));
    }
  }
  if (auto s = file.Reserve(end); !s.ok()) return s;
  const auto written = file.WriteAt(0, std::as_bytes(std::span(*head)));
  if (!written.ok()) return written;
  writer.file_ = std::move(file);
  return writer;
}

absl::Status Writer::Append(std::string_view name,
                            absl::Span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found == places_.end() || found->second.missing != bytes.size()) {
    return absl::InternalError(fmt::format(
        "tensor \"{}\" of {} bytes was not announced", name, bytes.size()));
  }
  return Write(name, 0, bytes);
}

absl::Status Writer::Write(std::string_view name, size_t offset,
                           absl::Span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found == places_.end() || offset > found->second.size ||
      bytes.size() > found->second.size - offset ||
      bytes.size() > found->second.missing) {
    return absl::InternalError(
        fmt::format("{} bytes at {} of tensor \"{}\" were not announced",
                    bytes.size(), offset, name));
  }
  found->second.missing -= bytes.size();
  return file_.WriteAt(found->second.begin + offset, bytes);
}

absl::Status Writer::Commit() {
  for (const auto& [name, place] : places_) {
    if (place.missing == 0) continue;
    return absl::InternalError(fmt::format(
        "{} bytes of tensor \"{}\" were not written", place.missing, name));
  }
  return file_.Commit();
}

}  // namespace quantd::safetensors
