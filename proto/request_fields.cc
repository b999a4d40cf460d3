#include "proto/request_fields.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kernels/plan/field_error.h"

namespace quantd::wire {

absl::StatusOr<TensorDesc> ReadTensor(const v1::Tensor& message) {
  if (message.shape_size() > kMaxShapeEntries) {
    return FieldError("tensor.shape",
                      fmt::format("1 to {} dimensions", kMaxShapeEntries),
                      fmt::format("{} dimensions", message.shape_size()));
  }
  TensorDesc tensor;
  // Unknown numbers pass through: the plan names them in its error.
  tensor.dtype = static_cast<DType>(message.dtype());
  tensor.shape.assign(message.shape().begin(), message.shape().end());
  if (message.has_flatten_axis()) tensor.flatten_axis = message.flatten_axis();
  return tensor;
}

absl::Status ReadRht(std::string_view field, const v1::Rht& message,
                     int* dimension, std::optional<SignMask>* mask) {
  if (message.dimension() != 0) {
    const auto* end = std::end(kRhtDimensions);
    // As unsigned: a number beyond the int's is none of them.
    const auto* found =
        std::find_if(std::begin(kRhtDimensions), end, [&](int legal) {
          return static_cast<uint32_t>(legal) == message.dimension();
        });
    if (found == end) {
      return FieldError(fmt::format("{}.dimension", field), "16, 32, 64 or 128",
                        fmt::to_string(message.dimension()));
    }
    *dimension = *found;
  }
  if (!message.has_sign_mask()) return absl::OkStatus();
  absl::StatusOr<SignMask> read =
      SignMaskFromBytes(message.sign_mask(), *dimension);
  if (!read.ok()) return RenameField(read.status(), "rht", field);
  *mask = *read;
  return absl::OkStatus();
}

CopyForm ReadForm(const v1::CopyForm& message) {
  CopyForm form;
  if (message.scale_layout() != v1::LAYOUT_UNSPECIFIED) {
    form.scale_layout = static_cast<Layout>(message.scale_layout());
  }
  form.compact_scales = message.compact_scales();
  form.row_scaled = message.row_scaled();
  form.scale_256 = message.scale_256();
  return form;
}

std::vector<int64_t> ReadSplits(const v1::Splits& message) {
  return {message.rows().begin(), message.rows().end()};
}

Usage ReadUsage(v1::Usage usage) {
  return usage == v1::USAGE_UNSPECIFIED ? Usage::kRowwise
                                        : static_cast<Usage>(usage);
}

absl::Status RenameField(absl::Status status, std::string_view from,
                         std::string_view to) {
  const std::optional<FieldViolation> v = GetFieldViolation(status);
  if (!v || !v->field.starts_with(from)) return status;
  const std::string rest = v->field.substr(from.size());
  if (!rest.empty() && rest[0] != '.') return status;
  return FieldError(std::string(to) + rest, v->expected, v->got);
}

absl::Status Adopt(absl::StatusOr<Plan> plan, Request* request) {
  if (!plan.ok()) return plan.status();
  if (plan->output_bytes() > kMaxReplyPayloadBytes) {
    return FieldError(
        "tensor.shape",
        fmt::format("a reply of at most {} bytes", kMaxReplyPayloadBytes),
        fmt::format("{} bytes", plan->output_bytes()));
  }
  request->plan = std::make_shared<const Plan>(*std::move(plan));
  return absl::OkStatus();
}

absl::Status PayloadSize(std::string_view expected, size_t got) {
  return FieldError("payload", expected, fmt::format("{} bytes", got));
}

absl::Status WholePayload(const Range& payload, Request* request) {
  const size_t expected = request->plan->input_bytes();
  if (payload.size != expected) {
    return PayloadSize(fmt::format("{} bytes", expected), payload.size);
  }
  request->sources = {{payload, ""}};
  return absl::OkStatus();
}

}  // namespace quantd::wire
