#include "client/quantctl/tensor_input.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "client/files/npy.h"
#include "client/files/quantized_file.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"

namespace quantd {

bool HasExtension(const std::string& path, std::string_view extension) {
  if (path.size() < extension.size()) return false;
  return std::equal(extension.begin(), extension.end(),
                    path.end() - static_cast<ptrdiff_t>(extension.size()),
                    [](char a, char b) {
                      return a == std::tolower(static_cast<unsigned char>(b));
                    });
}

// The first read error. The readers of all tensors share it.
struct TensorInput::Failure {
  std::mutex mutex;
  absl::Status status;
  absl::Status Note(const absl::Status& s) {
    const std::lock_guard lock(mutex);
    status.Update(s);
    return s;
  }
};

absl::Status TensorInput::read_error() const {
  const std::lock_guard lock(failure_->mutex);
  return failure_->status;
}

absl::StatusOr<TensorInput> TensorInput::Open(const std::string& path) {
  TensorInput input;
  const auto failure = std::make_shared<Failure>();
  input.failure_ = failure;
  if (HasExtension(path, ".npy")) {
    auto opened = npy::File::Open(path);
    if (!opened.ok()) return opened.status();
    const auto file = std::make_shared<const npy::File>(*std::move(opened));
    InputTensor tensor;
    tensor.name = std::filesystem::path(path).stem().string();
    tensor.desc = {file->header().dtype, file->header().shape};
    tensor.dtype_name = SafetensorsName(tensor.desc.dtype);
    tensor.size = file->size_bytes();
    tensor.read = [file, failure](size_t offset, absl::Span<std::byte> bytes) {
      return failure->Note(file->Read(offset, bytes));
    };
    input.tensors_.push_back(std::move(tensor));
    input.identity_ = file->identity();
  } else if (HasExtension(path, ".safetensors")) {
    auto opened = safetensors::File::Open(path);
    if (!opened.ok()) return opened.status();
    const auto file =
        std::make_shared<const safetensors::File>(*std::move(opened));
    for (const safetensors::Tensor& t : file->tensors()) {
      InputTensor tensor;
      tensor.name = t.name;
      tensor.dtype_name = t.dtype;
      tensor.desc = {FromSafetensorsName(t.dtype), t.shape};
      tensor.size = t.size;
      tensor.read = [file, failure, &t](size_t offset,
                                        absl::Span<std::byte> bytes) {
        return failure->Note(file->Read(t, offset, bytes));
      };
      input.tensors_.push_back(std::move(tensor));
    }
    input.identity_ = file->identity();
  } else {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a file named *.npy or *.safetensors", path));
  }
  for (InputTensor& t : input.tensors_) {
    const size_t rank = t.desc.shape.size();
    if (!IsFloat(t.desc.dtype)) {
      t.skip = {fmt::format("of dtype {}", t.dtype_name),
                fmt::format("dtype {} is not F32, F16 or BF16", t.dtype_name)};
    } else if (rank == 0) {
      t.skip = {"scalars", "a scalar"};
    } else if (rank > kMaxRank) {
      t.skip = {"of too many dimensions",
                fmt::format("{} dimensions, more than {}", rank, kMaxRank)};
    }
  }
  return input;
}

}  // namespace quantd
