#include "client/files/foreign_format.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "client/files/shown_name.h"
#include "fmt/format.h"

namespace quantd {
namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kHead = 512;
constexpr std::string_view kPointer = "version https://git-lfs";

constexpr std::string_view kSaveAgain =
    "load it with torch.load(NAME, weights_only=True) and write it with "
    "safetensors.torch.save_file";
constexpr std::string_view kUnpack = "unpack it first";

struct Magic {
  size_t at;
  std::string_view bytes;
  std::string_view what;
  std::string_view remedy;
};
constexpr Magic kMagics[] = {
    {0, "GGUF"sv, "a GGUF file, as llama.cpp writes",
     "use the safetensors files that it was made from, or convert it with "
     "transformers: "
     "from_pretrained(DIR, gguf_file=NAME).save_pretrained(NEW)"},
    {0, "PK\3\4"sv, "a zip archive, as torch.save writes", kSaveAgain},
    {0, "\x89HDF\r\n\x1A\n"sv, "an HDF5 file, as Keras and TensorFlow write",
     "load it there and write its arrays with safetensors.numpy.save_file"},
    {0, "\x93NUMPY"sv, "a NumPy array",
     "write it with safetensors.numpy.save_file, or give it the name .npy"},
    {0, "\x1F\x8B"sv, "a gzip archive", kUnpack},
    {0, "\x28\xB5\x2F\xFD"sv, "a zstd archive", kUnpack},
    {0,
     "\xFD"
     "7zXZ"sv,
     "an xz archive", kUnpack},
    {257, "ustar"sv, "a tar archive", kUnpack},
};

std::string HeadOf(const InputFile& file) {
  std::string head(std::min(file.size(), kHead), '\0');
  const auto status =
      file.ReadAt(0, {reinterpret_cast<std::byte*>(head.data()), head.size()});
  return status.ok() ? head : "";
}

// Expects ir_version, followed by a field that ONNX writes next. Protobuf has
// no signature of its own.
bool IsOnnx(std::string_view head) {
  return head.size() > 2 && head[0] == 8 && head[1] > 0 && head[1] < 32 &&
         "\x12\x1A\x3A\x42"sv.find(head[2]) != std::string_view::npos;
}

bool IsPickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         head[2] != 0;
}

// Whether the first 8 bytes are text. In a safetensors file they are a length,
// and text read as a length exceeds the size of any file.
bool IsText(std::string_view text) {
  text = text.substr(0, 8);
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isprint(c) != 0 || std::isspace(c) != 0;
  });
}

std::string TextFormat(std::string_view text) {
  if (text.starts_with(kPointer)) {
    return "a Git LFS pointer instead of the file: \"git lfs pull\" "
           "fetches it";
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0]))) {
    text.remove_prefix(1);
  }
  const std::string_view again =
      "a download without permission can produce that: log in if the model "
      "is gated, and fetch the file again";
  if (text.starts_with("<")) {
    return fmt::format("an HTML or XML page instead of the file; {}", again);
  }
  return fmt::format("text instead of the file, \"{}\"; {}",
                     ShownName(std::string(text.substr(0, 40))), again);
}

}  // namespace

std::string ForeignFormat(const InputFile& file) {
  std::string head = HeadOf(file);
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  // The file is a safetensors file, even if its length field is wrong.
  if (head.size() > 8 && head[8] == '{' && !IsText(head)) return "";
  for (const Magic& m : kMagics) {
    if (head.size() >= m.at &&
        std::string_view(head).substr(m.at).starts_with(m.bytes)) {
      return fmt::format("{}: {}", m.what, m.remedy);
    }
  }
  if (IsPickle(head)) return fmt::format("a pickle: {}", kSaveAgain);
  if (IsOnnx(head)) {
    return "an ONNX model: use the safetensors weights that it was exported "
           "from";
  }
  if (IsText(head)) return TextFormat(head);
  if (head.size() >= 8 && head.find_first_not_of('\0') == std::string::npos) {
    return "zeros instead of a header, as an interrupted download leaves them: "
           "fetch it again";
  }
  return "";
}

bool IsLfsPointer(const InputFile& file) {
  return file.size() < 1024 && HeadOf(file).starts_with(kPointer);
}

}  // namespace quantd
