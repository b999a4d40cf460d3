#include "client/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

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

absl::Span<const std::byte> AsBytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
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

absl::StatusOr<File> File::Open(const std::string& path) {
  auto mapped = MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  const absl::Span<const std::byte> bytes = mapped->bytes();
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, why));
  };
  if (bytes.size() < kLengthBytes) {
    return bad(fmt::format("{} bytes are no safetensors file", bytes.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return bad(fmt::format("header of {} bytes, over the format's limit of {}",
                           length, kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    return bad(fmt::format("header of {} bytes in a file of {}; truncated?",
                           length, bytes.size()));
  }
  File file;
  file.buffer_ = kLengthBytes + length;
  auto header = ParseHeader(
      {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length},
      bytes.size() - file.buffer_);
  if (!header.ok()) return bad(std::string(header.status().message()));
  file.header_ = *std::move(header);
  file.file_ = *std::move(mapped);
  return file;
}

const Tensor* File::Find(std::string_view name) const {
  for (const Tensor& t : header_.tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

absl::Span<const std::byte> File::bytes(const Tensor& tensor) const {
  return file_.bytes().subspan(buffer_ + tensor.offset, tensor.size);
}

absl::StatusOr<Writer> Writer::Create(const std::string& path,
                                      std::vector<Tensor> planned,
                                      Metadata metadata) {
  Writer writer;
  writer.metadata_ = std::move(metadata);
  // Every offset as long as the longest: what is written in the end, in any
  // order and with any of them missing, is not longer.
  size_t total = 0;
  for (const Tensor& t : planned) total += t.size;
  std::vector<Tensor> longest = planned;
  for (Tensor& t : longest) {
    t.offset = total;
    t.size = 0;
  }
  const size_t json = HeaderJson(longest, writer.metadata_).size();
  // The buffer begins at a multiple of 64.
  writer.header_room_ = (kLengthBytes + json + 63) / 64 * 64 - kLengthBytes;
  if (writer.header_room_ > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: too many tensors for one file", path));
  }
  for (Tensor& t : planned) {
    std::string name = t.name;
    if (!writer.planned_.emplace(std::move(name), std::move(t)).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: two tensors of one name", path));
    }
  }
  auto file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  writer.file_ = *std::move(file);
  return writer;
}

absl::Status Writer::Append(std::string_view name,
                            absl::Span<const std::byte> bytes) {
  const auto found = planned_.find(name);
  if (found == planned_.end() || found->second.size != bytes.size()) {
    return absl::InternalError(fmt::format(
        "tensor \"{}\" of {} bytes was not announced", name, bytes.size()));
  }
  Tensor tensor = std::move(found->second);
  planned_.erase(found);
  tensor.offset = buffer_size_;
  const size_t place = kLengthBytes + header_room_ + buffer_size_;
  if (auto s = file_.WriteAt(place, bytes); !s.ok()) return s;
  buffer_size_ += bytes.size();
  written_.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status Writer::Commit() {
  std::string json = HeaderJson(written_, metadata_);
  if (json.size() > header_room_) {
    return absl::InternalError("the header outgrew its room");
  }
  json.resize(header_room_, ' ');
  const std::string head = LittleEndian(header_room_) + json;
  if (auto s = file_.WriteAt(0, AsBytes(head)); !s.ok()) return s;
  return file_.Commit();
}

}  // namespace quantd::safetensors
