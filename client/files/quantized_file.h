// How quantized tensors lie in a safetensors file: names, types and metadata.
#ifndef QUANTD_CLIENT_FILES_QUANTIZED_FILE_H_
#define QUANTD_CLIENT_FILES_QUANTIZED_FILE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/quantized_description.h"
#include "client/files/safetensors.h"
#include "quantd/buffers.h"
#include "quantd/plan.h"
#include "quantd/quantized_tensor.h"

namespace quantd {

// Reads such a file; its static functions say how one is written. Movable.
class QuantizedFile {
 public:
  using Description = client::QuantizedDescription;

  static absl::StatusOr<QuantizedFile> Open(const std::string& path);

  // The quantized tensors, sorted.
  std::vector<std::string> names() const;
  // INVALID_ARGUMENT when a part is missing or is not what the metadata
  // demand; NOT_FOUND for a name that is not there. Reads none of the parts.
  absl::StatusOr<Description> Describe(std::string_view name) const;
  // Reads a tensor with its parts into memory. DATA_LOSS if the file was
  // truncated or written to since it was opened. `allocate` makes the memory,
  // all of it at once; without it, ordinary memory is used.
  absl::StatusOr<QuantizedTensor> Load(
      std::string_view name, const AllocateMemory& allocate = {}) const;
  FileIdentity identity() const { return file_->identity(); }

  // The tensors to announce to a Writer for one quantized tensor; its
  // arguments are legal.
  static std::vector<safetensors::Tensor> Parts(std::string_view name,
                                                const TensorDesc& tensor,
                                                const QuantizeOptions& options);
  static safetensors::Metadata Metadata(
      const std::map<std::string, Description>& tensors);
  static std::string MetadataKey(std::string_view name);
  static absl::Status Append(safetensors::Writer& writer, std::string_view name,
                             const QuantizedTensor& tensor);

 private:
  // A tensor without bytes, and where those of its parts lie.
  struct Located {
    QuantizedTensor tensor;
    std::vector<const safetensors::Tensor*> parts;
  };
  absl::StatusOr<Located> Locate(std::string_view name) const;
  absl::Status Bad(std::string_view name, std::string_view why) const;

  std::string path_;
  std::shared_ptr<const safetensors::File> file_;
};

// "BF16" and so on for our types; kUnspecified for another name.
std::string_view SafetensorsName(DType t);
DType FromSafetensorsName(std::string_view name);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_FILE_H_
