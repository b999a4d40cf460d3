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

// Reads a file of quantized tensors. The static functions describe the layout
// for a safetensors::Writer. Movable.
class QuantizedFile {
 public:
  using Description = client::QuantizedDescription;

  static absl::StatusOr<QuantizedFile> Open(const std::string& path);

  // Names of the quantized tensors, sorted.
  std::vector<std::string> names() const;
  // Returns the description of a tensor without reading its parts. Returns
  // NOT_FOUND for an unknown name, and INVALID_ARGUMENT if a part is missing or
  // differs from the description.
  absl::StatusOr<Description> Describe(std::string_view name) const;
  // Reads a tensor with all parts. Returns DATA_LOSS if the file was truncated
  // or written to since it was opened. `allocate` is called once, for the
  // memory of all parts. By default they are read into ordinary memory.
  absl::StatusOr<QuantizedTensor> Load(
      std::string_view name, const AllocateMemory& allocate = {}) const;
  FileIdentity identity() const { return file_->identity(); }

  // The tensors to announce to a Writer for one quantized tensor. Empty if the
  // arguments are not legal.
  static std::vector<safetensors::Tensor> Parts(std::string_view name,
                                                const TensorDesc& tensor,
                                                const QuantizeOptions& options);
  static safetensors::Metadata Metadata(
      const std::map<std::string, Description>& tensors);
  static std::string MetadataKey(std::string_view name);
  static absl::Status Append(safetensors::Writer& writer, std::string_view name,
                             const QuantizedTensor& tensor);

 private:
  // A quantized tensor without its bytes, and where its parts lie in the file.
  struct Located {
    QuantizedTensor tensor;
    std::vector<const safetensors::Tensor*> parts;
  };
  absl::StatusOr<Located> Locate(std::string_view name) const;
  absl::Status Bad(std::string_view name, std::string_view why) const;

  std::string path_;
  std::shared_ptr<const safetensors::File> file_;
};

// Convert a type to and from its safetensors name, such as "BF16". An unknown
// name yields kUnspecified.
std::string_view SafetensorsName(DType t);
DType FromSafetensorsName(std::string_view name);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_QUANTIZED_FILE_H_
