#include "client/files/npy.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

absl::Status Bad(std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("npy header: {}", why));
}

// Parses the dict literal that numpy writes. No other Python syntax is
// accepted.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : rest_(text) {}

  absl::Status Parse() {
    if (!Take('{')) return Bad("expected '{'");
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':')) return Bad("expected a quoted key");
      absl::Status status;
      if (key == "descr" && !descr) {
        status = Descr();
      } else if (key == "fortran_order" && !fortran) {
        status = Bool();
      } else if (key == "shape" && !shape) {
        status = Shape();
      } else {
        return Bad("keys must be descr, fortran_order and shape, each once");
      }
      if (!status.ok()) return status;
      if (!Take(',')) {
        if (!Take('}')) return Bad("expected ',' or '}'");
        break;
      }
    }
    SkipSpace();
    if (!rest_.empty()) return Bad("something follows the dict");
    if (!descr || !fortran || !shape) {
      return Bad("needs descr, fortran_order and shape");
    }
    return absl::OkStatus();
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;

 private:
  void SkipSpace() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }
  bool Take(char c) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Reads a quoted string. Returns false if it has escapes, which no accepted
  // key or type has.
  bool String(std::string* out) {
    SkipSpace();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) {
      return false;
    }
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return out->find('\\') == std::string::npos;
  }
  absl::Status Descr() {
    descr.emplace();
    SkipSpace();
    if (!rest_.empty() && rest_.front() == '[') {
      return Bad("structured types are not tensors");
    }
    return String(&*descr) ? absl::OkStatus() : Bad("descr is not a string");
  }
  absl::Status Bool() {
    SkipSpace();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (rest_.substr(0, word.size()) == word) {
        rest_.remove_prefix(word.size());
        fortran = value;
        return absl::OkStatus();
      }
    }
    return Bad("fortran_order is neither True nor False");
  }
  absl::Status Shape() {
    shape.emplace();
    if (!Take('(')) return Bad("shape is not a tuple");
    while (!Take(')')) {
      SkipSpace();
      size_t digits = 0;
      uint64_t value = 0;
      while (digits < rest_.size() && rest_[digits] >= '0' &&
             rest_[digits] <= '9') {
        if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
            __builtin_add_overflow(value, uint64_t(rest_[digits] - '0'),
                                   &value) ||
            value > uint64_t{std::numeric_limits<int64_t>::max()}) {
          return Bad("a dimension is too large");
        }
        ++digits;
      }
      if (digits == 0) return Bad("a dimension is not a whole number >= 0");
      rest_.remove_prefix(digits);
      if (shape->size() == kMaxRank) return Bad("too many dimensions");
      shape->push_back(static_cast<int64_t>(value));
      if (!Take(',')) {
        // In Python (3) is not a tuple, (3,) is.
        if (shape->size() == 1) return Bad("shape is not a tuple");
        if (!Take(')')) return Bad("shape is not a tuple");
        break;
      }
    }
    return absl::OkStatus();
  }

  std::string_view rest_;
};

std::optional<DType> FromDescr(std::string_view descr) {
  if (descr == "<f4") return DType::kF32;
  if (descr == "<f2") return DType::kF16;
  return std::nullopt;
}

// Size of a tensor in bytes, or nullopt on overflow.
std::optional<size_t> ByteSize(DType dtype, absl::Span<const int64_t> shape) {
  size_t total = SizeOf(dtype);
  for (int64_t d : shape) {
    if (d < 0 ||
        __builtin_mul_overflow(total, static_cast<size_t>(d), &total)) {
      return std::nullopt;
    }
  }
  return total;
}

}  // namespace

absl::StatusOr<Header> ParseHeader(std::string_view file, size_t file_size) {
  if (file.substr(0, kMagic.size()) != kMagic) {
    return Bad("does not begin with \\x93NUMPY");
  }
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(file[i]));
  };
  const size_t version_end = kMagic.size() + 2;
  if (file.size() < version_end) return Bad("truncated");
  const size_t major = byte(kMagic.size());
  if (major < 1 || major > 3 || byte(kMagic.size() + 1) != 0) {
    return Bad(fmt::format("version {}.{} is not 1.0, 2.0 or 3.0", major,
                           byte(kMagic.size() + 1)));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = version_end + length_bytes;
  if (file.size() < start) return Bad("truncated");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= byte(version_end + i) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return Bad(fmt::format("{} bytes long, over the limit of {}", length,
                           kMaxHeaderBytes));
  }
  if (length > file.size() - start) return Bad("truncated");
  DictParser dict(file.substr(start, length));
  if (auto s = dict.Parse(); !s.ok()) return s;
  Header header;
  const auto dtype = FromDescr(*dict.descr);
  if (!dtype) {
    return Bad(fmt::format(
        "element type '{}' is not '<f4' or '<f2' (little-endian fp32 or "
        "fp16); convert it with astype",
        dict.descr->substr(0, 40)));
  }
  if (*dict.fortran && dict.shape->size() > 1) {
    return Bad(
        "Fortran order; save numpy.ascontiguousarray of the tensor instead");
  }
  header.dtype = *dtype;
  header.shape = *std::move(dict.shape);
  header.data_offset = start + length;
  const auto size = ByteSize(header.dtype, header.shape);
  if (!size) return Bad("shape overflows");
  if (*size != file_size - header.data_offset) {
    return Bad(fmt::format("shape ({}) needs {} bytes of data, but {} follow",
                           fmt::join(header.shape, ", "), *size,
                           file_size - header.data_offset));
  }
  return header;
}

absl::StatusOr<File> File::Open(const std::string& path) {
  auto opened = InputFile::Open(path);
  if (!opened.ok()) return opened.status();
  // Magic, version, length field, and the longest header that is accepted.
  std::string start(std::min(opened->size(), kMaxHeaderBytes + 16), '\0');
  const absl::Span<std::byte> room(reinterpret_cast<std::byte*>(start.data()),
                                   start.size());
  if (auto s = opened->ReadAt(0, room); !s.ok()) return s;
  auto header = ParseHeader(start, opened->size());
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", path, std::string(header.status().message())));
  }
  File file;
  file.header_ = *std::move(header);
  file.file_ = *std::move(opened);
  return file;
}

absl::StatusOr<Writer> Writer::Create(OutputFile file, DType dtype,
                                      absl::Span<const int64_t> shape) {
  const auto size = ByteSize(dtype, shape);
  if (dtype != DType::kF32 && dtype != DType::kF16) {
    return absl::InvalidArgumentError(fmt::format(
        ".npy cannot store {}; choose f32, f16 or a .safetensors file",
        Name(dtype)));
  }
  if (!size) return Bad("shape overflows");
  std::string dict = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      dtype == DType::kF32 ? "<f4" : "<f2", fmt::join(shape, ", "),
      shape.size() == 1 ? "," : "");
  // The data begins at a multiple of 64, as numpy writes it.
  const size_t start = kMagic.size() + 4;
  dict.resize((start + dict.size() + 1 + 63) / 64 * 64 - start - 1, ' ');
  dict += '\n';
  std::string head(kMagic);
  head += '\x01';
  head += '\0';
  head += static_cast<char>(dict.size() & 0xFF);
  head += static_cast<char>(dict.size() >> 8);
  head += dict;
  if (auto s = file.Reserve(head.size() + *size); !s.ok()) return s;
  const auto written = file.WriteAt(0, std::as_bytes(std::span(head)));
  if (!written.ok()) return written;
  Writer writer;
  writer.file_ = std::move(file);
  writer.begin_ = head.size();
  writer.size_ = writer.missing_ = *size;
  return writer;
}

absl::Status Writer::Write(size_t offset, absl::Span<const std::byte> bytes) {
  if (offset > size_ || bytes.size() > size_ - offset ||
      bytes.size() > missing_) {
    return absl::InternalError(
        fmt::format("{} bytes at {} of {} were not announced", bytes.size(),
                    offset, size_));
  }
  missing_ -= bytes.size();
  return file_.WriteAt(begin_ + offset, bytes);
}

absl::Status Writer::Commit() {
  if (missing_ == 0) return file_.Commit();
  return absl::InternalError(
      fmt::format("{} bytes of {} were not written", missing_, size_));
}

absl::Status Write(const std::string& path, DType dtype,
                   absl::Span<const int64_t> shape,
                   absl::Span<const std::byte> bytes) {
  const auto size = ByteSize(dtype, shape);
  if (!size || *size != bytes.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes do not match the shape", path, bytes.size()));
  }
  auto file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  auto writer = Writer::Create(*std::move(file), dtype, shape);
  if (!writer.ok()) return writer.status();
  if (auto s = writer->Write(0, bytes); !s.ok()) return s;
  return writer->Commit();
}

}  // namespace quantd::npy
