#include "client/quantized_tensor.h"

#include <utility>

#include "client/parts.h"
#include "client/quantized_file.h"
#include "fmt/format.h"
#include "kernels/field_error.h"

namespace quantd {

absl::StatusOr<QuantizedTensor> QuantizedTensor::Make(
    const TensorDesc& tensor, const QuantizeOptions& options) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  QuantizedTensor out;
  out.desc_ = tensor;
  // With defaults filled in.
  out.options_ = std::get<QuantizeOptions>(plan->options());
  out.parts_ = PartsOf(*plan);
  return out;
}

const TensorSpec* QuantizedTensor::part(TensorKind kind) const {
  for (const TensorSpec& spec : parts_) {
    if (spec.kind == kind) return &spec;
  }
  return nullptr;
}

absl::Span<const std::byte> QuantizedTensor::bytes(TensorKind kind) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].kind == kind) return spans_[i];
  }
  return {};
}

std::optional<QuantizedTensor::Copy> QuantizedTensor::copy(
    bool columnwise) const {
  const TensorKind data =
      columnwise ? TensorKind::kColumnwiseData : TensorKind::kRowwiseData;
  const TensorKind scale =
      columnwise ? TensorKind::kColumnwiseScale : TensorKind::kRowwiseScale;
  const TensorSpec* codes = part(data);
  const TensorSpec* scales = part(scale);
  if (codes == nullptr || scales == nullptr) return std::nullopt;
  Copy copy;
  copy.rotated = columnwise ? options_.rht.columnwise : options_.rht.rowwise;
  copy.data = bytes(data);
  copy.data_shape = codes->shape;
  copy.scale = bytes(scale);
  copy.scale_dtype = scales->dtype;
  copy.scale_layout = scales->layout;
  copy.scale_shape = scales->shape;
  copy.amax = as<float>(columnwise ? TensorKind::kColumnwiseAmax
                                   : TensorKind::kRowwiseAmax);
  return copy;
}

std::optional<QuantizedTensor::Copy> QuantizedTensor::rowwise() const {
  return copy(/*columnwise=*/false);
}
std::optional<QuantizedTensor::Copy> QuantizedTensor::columnwise() const {
  return copy(/*columnwise=*/true);
}

size_t QuantizedTensor::size_bytes() const {
  size_t total = 0;
  for (const TensorSpec& spec : parts_) total += spec.size;
  return total;
}

size_t QuantizedTensor::original_size_bytes() const {
  size_t total = SizeOf(desc_.dtype);
  for (int64_t d : desc_.shape) total *= static_cast<size_t>(d);
  return total;
}

absl::StatusOr<Result> QuantizedTensor::Dequantize(
    Client& client, DType dtype, const CallOptions& call) const {
  return DequantizeCopy(
      client, HasRowwise(usage()) ? Usage::kRowwise : Usage::kColumnwise, dtype,
      call);
}

absl::StatusOr<Result> QuantizedTensor::DequantizeCopy(
    Client& client, Usage which, DType dtype, const CallOptions& call) const {
  const bool one = which == Usage::kRowwise || which == Usage::kColumnwise;
  const auto part = copy(which == Usage::kColumnwise);
  if (!one || !part) {
    return FieldError("usage", fmt::format("the {} copy", Name(usage())),
                      Name(which));
  }
  DequantizeOptions options;
  options.format = options_.format;
  options.usage = which;
  options.output = dtype == DType::kUnspecified ? desc_.dtype : dtype;
  if (part->rotated) {
    options.inverse_rht = true;
    options.rht_dimension = options_.rht.dimension;
    options.sign_mask = options_.rht.sign_mask;
  }
  options.form = options_.form;
  options.splits = options_.splits;
  return client.Dequantize(desc_, {part->data, part->scale, part->amax},
                           options, call);
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::FromResult(
    const TensorDesc& tensor, const QuantizeOptions& options, Result result) {
  auto out = Make(tensor, options);
  if (!out.ok()) return out.status();
  const auto owner = std::make_shared<const Result>(std::move(result));
  for (const TensorSpec& spec : out->parts_) {
    out->spans_.push_back(owner->bytes(spec.kind));
    if (out->spans_.back().size() != spec.size) {
      return FieldError(
          "result", fmt::format("{} bytes of {}", spec.size, Name(spec.kind)),
          fmt::format("{} bytes", out->spans_.back().size()));
    }
  }
  out->rowwise_ = owner->statistics(Usage::kRowwise);
  out->columnwise_ = owner->statistics(Usage::kColumnwise);
  out->owner_ = owner;
  return out;
}

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
