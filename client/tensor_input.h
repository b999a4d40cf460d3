// The tensors of a .npy or .safetensors file, one way to look at both.
#ifndef QUANTD_CLIENT_TENSOR_INPUT_H_
#define QUANTD_CLIENT_TENSOR_INPUT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/plan.h"

namespace quantd {

struct InputTensor {
  std::string name;
  std::string dtype_name;  // as the file says: "BF16", "I64"
  TensorDesc desc;
  absl::Span<const std::byte> bytes;  // views the TensorInput
  std::string skip;                   // why it is not worked on; empty: it is
};

// Movable; views into it stay valid when it moves.
class TensorInput {
 public:
  // By the name's end: ".npy" gives one tensor, called after the file,
  // ".safetensors" all of its tensors, in the order of the file. Those that
  // are no fp32, fp16 or bf16 tensor of 1 to 8 dimensions come with `skip`.
  static absl::StatusOr<TensorInput> Open(const std::string& path);

  std::vector<InputTensor>& tensors() { return tensors_; }
  const std::vector<InputTensor>& tensors() const { return tensors_; }

 private:
  std::vector<InputTensor> tensors_;
  std::shared_ptr<const void> file_;
};

// True when `path` ends so, in either case.
bool HasExtension(const std::string& path, std::string_view extension);

}  // namespace quantd

#endif  // QUANTD_CLIENT_TENSOR_INPUT_H_
