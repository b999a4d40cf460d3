#include "quantd/quantized_tensor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "kernels/plan/plan_checks.h"
#include "kernels/plan/shards.h"
#include "quantd/field_error.h"

namespace quantd {

absl::StatusOr<QuantizedTensor> QuantizedTensor::Make(
    const TensorDesc& tensor, const QuantizeOptions& options) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  QuantizedTensor out;
  out.desc_ = tensor;
  // The plan's options have the defaults filled in.
  out.options_ = std::get<QuantizeOptions>(plan->options());
  out.parts_ = plan->outputs();
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
  for (const TensorKind kind :
       {TensorKind::kRowwiseGlobalScale, TensorKind::kRowwiseGlobalDivisor}) {
    if (columnwise || this->part(kind) == nullptr) continue;
    copy.global = as<float>(kind);
    copy.global_kind = kind;
  }
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
  return client.Dequantize(
      desc_, {part->data, part->scale, part->amax, part->global},
      DecodeOptionsOf(options_, which,
                      dtype == DType::kUnspecified ? desc_.dtype : dtype),
      call);
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

namespace {

// Checks one part that the caller provides against the plan's `want`.
absl::Status CheckPart(std::string_view field,
                       const QuantizedTensor::Part& part,
                       const TensorSpec& want, Scaling scaling) {
  if (!part.shape.empty() && part.shape != want.shape) {
    return FieldError(fmt::format("{}.shape", field), ShapeText(want.shape),
                      ShapeText(part.shape));
  }
  if (part.bytes.size() != want.size) {
    return FieldError(fmt::format("{}.bytes", field),
                      fmt::format("{} bytes of {}", want.size, Name(want.kind)),
                      fmt::format("{} bytes", part.bytes.size()));
  }
  if (want.dtype != DType::kF32) return absl::OkStatus();
  if (reinterpret_cast<uintptr_t>(part.bytes.data()) % sizeof(float) != 0) {
    return FieldError(fmt::format("{}.bytes", field), "memory aligned for f32",
                      fmt::format("{}", fmt::ptr(part.bytes.data())));
  }
  const bool amax = want.kind == TensorKind::kRowwiseAmax ||
                    want.kind == TensorKind::kColumnwiseAmax ||
                    want.kind == TensorKind::kAmax;
  const bool global = want.kind == TensorKind::kRowwiseGlobalScale ||
                      want.kind == TensorKind::kRowwiseGlobalDivisor;
  const bool scale = global || (scaling == Scaling::kTensor &&
                                (want.kind == TensorKind::kRowwiseScale ||
                                 want.kind == TensorKind::kColumnwiseScale ||
                                 want.kind == TensorKind::kNextScale));
  if (!amax && !scale) return absl::OkStatus();
  const absl::Span<const float> values(
      reinterpret_cast<const float*>(part.bytes.data()),
      part.bytes.size() / sizeof(float));
  for (float v : values) {
    // NaN is legal: it is the amax of an input with a NaN.
    if (std::isnan(v) || (scale ? v > 0 : v >= 0)) continue;
    return FieldError(fmt::format("{}.bytes", field),
                      scale ? "scales > 0" : "amaxes >= 0", fmt::to_string(v));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<QuantizedTensor> QuantizedTensor::FromParts(
    const TensorDesc& tensor, const QuantizeOptions& options,
    absl::Span<const Part> parts, std::shared_ptr<const void> owner) {
  auto out = Make(tensor, options);
  if (!out.ok()) return out.status();
  out->spans_.resize(out->parts_.size());
  std::vector<bool> found(out->parts_.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string field = fmt::format("parts[{}]", i);
    const TensorSpec* want = out->part(parts[i].kind);
    if (want == nullptr) {
      return FieldError(field, "a part that these options make",
                        NameOrNumber(parts[i].kind));
    }
    const auto at = static_cast<size_t>(want - out->parts_.data());
    if (found[at]) {
      return FieldError(field, "each part once",
                        fmt::format("{} again", Name(want->kind)));
    }
    const Scaling scaling = FindFormat(options.format)->scaling;
    if (auto s = CheckPart(field, parts[i], *want, scaling); !s.ok()) return s;
    found[at] = true;
    out->spans_[at] = parts[i].bytes;
  }
  for (size_t at = 0; at < found.size(); ++at) {
    if (found[at]) continue;
    return FieldError("parts", fmt::format("a {}", Name(out->parts_[at].kind)),
                      "none");
  }
  if (owner != nullptr) {
    out->owner_ = std::move(owner);
    return out;
  }
  size_t total = 0;
  for (const TensorSpec& spec : out->parts_) {
    total = std::max(total, spec.offset + spec.size);
  }
  const auto kept = std::make_shared<AlignedBytes>(total);
  if (kept->span().size() != total) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for {} bytes of parts", total));
  }
  for (size_t at = 0; at < found.size(); ++at) {
    const TensorSpec& spec = out->parts_[at];
    const auto to = kept->span().subspan(spec.offset, spec.size);
    std::copy(out->spans_[at].begin(), out->spans_[at].end(), to.begin());
    out->spans_[at] = to;
  }
  out->owner_ = kept;
  return out;
}

}  // namespace quantd
