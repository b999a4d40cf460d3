// Finds data, scale and amax in the payload of a DequantizeRequest.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/plan_checks.h"
#include "proto/option_fields.h"
#include "proto/request_plan.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are little endian and are used without conversion");

bool IsAmax(TensorKind kind) {
  return kind == TensorKind::kRowwiseAmax ||
         kind == TensorKind::kColumnwiseAmax;
}

// Checks the group offsets of a ref, if it has any. The size alone would not
// tell a copy with other groups from this one.
absl::Status CheckGroupOffsets(std::string_view field, const v1::TensorRef& ref,
                               const TensorSpec& want) {
  const auto& got = ref.group_offsets();
  if (got.empty()) return absl::OkStatus();
  const size_t count = want.group_offsets.size();
  if (static_cast<size_t>(got.size()) != count) {
    return FieldError(fmt::format("{}.group_offsets", field),
                      count == 0
                          ? std::string("none")
                          : fmt::format("{}, one more than splits", count),
                      fmt::to_string(got.size()));
  }
  const auto [expected, actual] = std::mismatch(
      want.group_offsets.begin(), want.group_offsets.end(), got.begin());
  if (expected == want.group_offsets.end()) return absl::OkStatus();
  return FieldError(fmt::format("{}.group_offsets[{}]", field,
                                expected - want.group_offsets.begin()),
                    fmt::format("{}, which follows from splits", *expected),
                    fmt::to_string(*actual));
}

// Checks a ref against the plan's tensor of its kind, and returns the ref's
// range.
absl::StatusOr<Range> ReadRef(std::string_view field, const v1::TensorRef& ref,
                              const TensorSpec& want, const Range& payload) {
  const DType dtype = static_cast<DType>(ref.dtype());
  if (dtype != DType::kUnspecified && dtype != want.dtype) {
    return FieldError(fmt::format("{}.dtype", field), Name(want.dtype),
                      NameOrNumber(dtype));
  }
  const Layout layout = static_cast<Layout>(ref.layout());
  if (layout != Layout::kUnspecified && layout != want.layout) {
    return FieldError(fmt::format("{}.layout", field), Name(want.layout),
                      NameOrNumber(layout));
  }
  const std::vector<int64_t> shape(ref.shape().begin(), ref.shape().end());
  if (!shape.empty() && shape != want.shape) {
    return FieldError(fmt::format("{}.shape", field), ShapeText(want.shape),
                      ShapeText(shape));
  }
  if (ref.size() != want.size) {
    return FieldError(fmt::format("{}.size", field),
                      fmt::format("{} bytes of {}", want.size, Name(want.kind)),
                      fmt::format("{} bytes", ref.size()));
  }
  // Subtracts, because offset + size may wrap.
  if (want.size > payload.size || ref.offset() > payload.size - want.size) {
    return FieldError(
        fmt::format("{}.offset", field),
        fmt::format("{} bytes inside a payload of {}", want.size, payload.size),
        fmt::format("offset {}", ref.offset()));
  }
  QUANTD_RETURN_IF_ERROR(CheckGroupOffsets(field, ref, want));
  return Range{payload.offset + ref.offset(), want.size};
}

absl::Status ReadRefs(const v1::DequantizeRequest& message,
                      const Range& payload, Request* request) {
  const std::vector<TensorSpec>& inputs = request->plan->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Request::Source& source = request->sources[i];
    const v1::TensorKind kind = ToProto(inputs[i].kind);
    int found = -1;
    for (int k = 0; k < message.tensors_size(); ++k) {
      if (message.tensors(k).kind() != kind) continue;
      if (found >= 0) {
        return FieldError("tensors",
                          fmt::format("one {}", Name(inputs[i].kind)),
                          fmt::format("number {} and number {}", found, k));
      }
      found = k;
    }
    if (found < 0) {
      if (!source.literal.empty()) continue;
      return FieldError("tensors", fmt::format("a {}", Name(inputs[i].kind)),
                        "none");
    }
    absl::StatusOr<Range> range =
        ReadRef(fmt::format("tensors[{}]", found), message.tensors(found),
                inputs[i], payload);
    if (!range.ok()) return range.status();
    source.range = *range;
  }
  return absl::OkStatus();
}

absl::Status ReadBackToBack(const Range& payload, Request* request) {
  const std::vector<TensorSpec>& inputs = request->plan->inputs();
  size_t all = 0;
  size_t given = 0;  // bytes of a literal, which the payload may omit
  for (size_t i = 0; i < inputs.size(); ++i) {
    all += inputs[i].size;
    given += request->sources[i].literal.size();
  }
  if (payload.size != all && payload.size != all - given) {
    return PayloadSize(given == 0
                           ? fmt::format("{} bytes", all)
                           : fmt::format("{} or {} bytes", all - given, all),
                       payload.size);
  }
  size_t offset = payload.offset;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The amax is last, so omitting it moves no other tensor.
    if (!request->sources[i].literal.empty()) continue;
    request->sources[i].range = {offset, inputs[i].size};
    offset += inputs[i].size;
  }
  return absl::OkStatus();
}

// Reads the field `amax`, which replaces the amax in the payload.
absl::Status ReadAmax(float amax, Request* request) {
  if (!std::isfinite(amax) || amax < 0) {
    return FieldError("amax", "a finite number >= 0", fmt::to_string(amax));
  }
  const std::vector<TensorSpec>& inputs = request->plan->inputs();
  const auto wanted =
      std::find_if(inputs.begin(), inputs.end(),
                   [](const TensorSpec& spec) { return IsAmax(spec.kind); });
  const auto& options = std::get<DequantizeOptions>(request->plan->options());
  if (options.profile != Profile::kTe) {
    return FieldError("amax",
                      "none, because a profile stores another value instead",
                      fmt::format("amax with {}", Name(options.profile)));
  }
  if (wanted == inputs.end()) {
    std::vector<std::string_view> names;
    for (const FormatSpec& f : kFormats) {
      if (f.scaling == Scaling::kNvfp4) names.push_back(f.name);
    }
    return FieldError(
        "amax", fmt::format("no amax, except with {}", fmt::join(names, ", ")),
        "an amax with a format that does not use it");
  }
  if (wanted->size != sizeof amax) {
    return FieldError("amax",
                      fmt::format("{} values in the payload, not this field",
                                  wanted->size / sizeof amax),
                      "one value");
  }
  request->sources[wanted - inputs.begin()].literal.assign(
      reinterpret_cast<const char*>(&amax), sizeof amax);
  return absl::OkStatus();
}

}  // namespace

absl::Status Locate(const v1::DequantizeRequest& message, const Range& payload,
                    Request* request) {
  request->sources.resize(request->plan->inputs().size());
  if (message.has_amax()) {
    QUANTD_RETURN_IF_ERROR(ReadAmax(message.amax(), request));
  }
  return message.tensors_size() > 0 ? ReadRefs(message, payload, request)
                                    : ReadBackToBack(payload, request);
}

absl::Status LocateElsewhere(const v1::DequantizeRequest& message,
                             Request* request) {
  if (message.tensors_size() > 0) {
    return FieldError("tensors", "none with memory.inputs",
                      fmt::to_string(message.tensors_size()));
  }
  request->sources.resize(request->plan->inputs().size());
  return message.has_amax() ? ReadAmax(message.amax(), request)
                            : absl::OkStatus();
}

}  // namespace quantd::wire
