// Reads the tensors of .npy and .safetensors files through one interface.
#ifndef QUANTD_CLIENT_QUANTCTL_TENSOR_INPUT_H_
#define QUANTD_CLIENT_QUANTCTL_TENSOR_INPUT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/file.h"
#include "quantd/pieces.h"
#include "quantd/plan.h"

namespace quantd {

// The reason why a tensor is not processed.
struct Skip {
  std::string kind;    // plural noun for the summary: "scalars"
  std::string reason;  // reason for this tensor; "" if it is not skipped
};

struct InputTensor {
  std::string name;
  std::string dtype_name;  // the file's name of the type: "BF16", "I64"
  TensorDesc desc;
  size_t size = 0;    // bytes
  TensorReader read;  // keeps the file open
  Skip skip;
};

// Movable.
class TensorInput {
 public:
  // Opens a file according to its extension. A .npy file gives one tensor,
  // named after the file. A .safetensors file gives all its tensors, in the
  // order of the file. Tensors that are not fp32, fp16 or bf16 or do not have 1
  // to 8 dimensions have `skip` set.
  static absl::StatusOr<TensorInput> Open(const std::string& path);

  std::vector<InputTensor>& tensors() { return tensors_; }
  const std::vector<InputTensor>& tensors() const { return tensors_; }
  FileIdentity identity() const { return identity_; }
  // The error of the first failed read; OK if none failed.
  absl::Status read_error() const;

 private:
  struct Failure;
  std::vector<InputTensor> tensors_;
  FileIdentity identity_;
  std::shared_ptr<Failure> failure_;
};

// Whether `path` has the extension, ignoring case.
bool HasExtension(const std::string& path, std::string_view extension);

}  // namespace quantd

#endif  // QUANTD_CLIENT_QUANTCTL_TENSOR_INPUT_H_
