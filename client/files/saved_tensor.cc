// Saves a quantized tensor to a file, and loads it from a file.
#include <string>
#include <string_view>
#include <vector>

#include "client/files/quantized_file.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "quantd/quantized_tensor.h"

namespace quantd {

absl::Status QuantizedTensor::Save(const std::string& path,
                                   std::string_view name) const {
  auto writer = safetensors::Writer::Create(
      path, QuantizedFile::Parts(name, desc_, options_),
      QuantizedFile::Metadata({{std::string(name), {desc_, options_}}}));
  if (!writer.ok()) return writer.status();
  if (auto s = QuantizedFile::Append(*writer, name, *this); !s.ok()) return s;
  return writer->Commit();
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::Load(const std::string& path,
                                                      std::string_view name) {
  auto file = QuantizedFile::Open(path);
  if (!file.ok()) return file.status();
  if (!name.empty()) return file->Load(name);
  const std::vector<std::string> names = file->names();
  if (names.size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: holds {} quantized tensors; name one of them", path,
                    names.size()));
  }
  return file->Load(names[0]);
}

}  // namespace quantd
