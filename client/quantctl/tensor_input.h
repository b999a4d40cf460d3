// The tensors of a .npy or .safetensors file, one way to look at both.
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

// Why a tensor is not worked on.
struct Skip {
  std::string kind;    // what those like it are: "scalars"
  std::string reason;  // of this one; empty: it is worked on
};

struct InputTensor {
  std::string name;
  std::string dtype_name;  // as the file says: "BF16", "I64"
  TensorDesc desc;
  size_t size = 0;    // bytes
  TensorReader read;  // keeps the file open
  Skip skip;
};

// Movable.
class TensorInput {
 public:
  // By the name's end: ".npy" gives one tensor, called after the file,
  // ".safetensors" all of its tensors, in the order of the file. Those that
  // are no fp32, fp16 or bf16 tensor of 1 to 8 dimensions come with `skip`.
  static absl::StatusOr<TensorInput> Open(const std::string& path);

  std::vector<InputTensor>& tensors() { return tensors_; }
  const std::vector<InputTensor>& tensors() const { return tensors_; }
  FileIdentity identity() const { return identity_; }
  // What the first read that failed said; OK: none did.
  absl::Status read_error() const;

 private:
  struct Failure;
  std::vector<InputTensor> tensors_;
  FileIdentity identity_;
  std::shared_ptr<Failure> failure_;
};

// True when `path` ends so, in either case.
bool HasExtension(const std::string& path, std::string_view extension);

}  // namespace quantd

#endif  // QUANTD_CLIENT_QUANTCTL_TENSOR_INPUT_H_
