// Stores quantized tensors in a safetensors file: names, types and metadata.
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

// Reads such a file; its static functions describe how one is written. Movable.
class QuantizedFile {
 public:
  using Description = client::QuantizedDescription;

  static absl::StatusOr<QuantizedFile> Open(const std::string& path);

  // Names of the quantized tensors, sorted.
  std::vector<std::string> names() const;
  // INVALID_ARGUMENT if a part is missing or differs from the metadata;
  // NOT_FOUND for an unknown name. Reads none of the parts.
  absl::StatusOr<Description> Describe(std::string_view name) const;
  // Reads a tensor with its parts. DATA_LOSS if the file was truncated or
  // written to since it was opened. `allocate` is called once for all of the
  // memory; by default ordinary memory is used.
  absl::StatusOr<QuantizedTensor> Load(
      std::string_view name, const AllocateMemory& allocate = {}) const;
  FileIdentity identity() const { return file_->identity(); }

  // The tensors to announce to a Writer for one quantized tensor. The arguments
  // must be legal.
  static std::vector<safetensors::Tensor> Parts(std::string_view name,
                                                const TensorDesc& tensor,
                                                const QuantizeOptions& options);
  static safetensors::Metadata Metadata(
      const std::map<std::string, Description>& tensors);
  static std::string MetadataKey(std::string_view name);
  static absl::Status Append(safetensors::Writer& writer, std::string_view name,
                             const QuantizedTensor& tensor);

 private:
  // A tensor without bytes, and the location of its parts.
  struct Located {
    QuantizedTensor tensor;
    std::vector<const safetensors::Tensor*> parts;
  };
  absl::StatusOr<Located> Locate(std::string_view name) const;
  absl::Status Bad(std::string_view name, std::string_view why) const;

  std::string path_;
  std::shared_ptr<const safetensors::File> file_;
};

// Convert to and from names such as "BF16"; kUnspecified for an unknown name.
std::string_view SafetensorsName(DType t);
DType FromSafetensorsName(std::string_view name);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_FILE_H_
