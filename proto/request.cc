// From a message to a Plan and the places of its input bytes.
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "google/protobuf/arena.h"
#include "kernels/field_error.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are little endian, and used as they are");

// Largest dimension a SignMask can hold; the plan says which are legal.
constexpr uint32_t kLargestDimension = 128;

#define QUANTD_RETURN_IF_ERROR(expr)                \
  do {                                              \
    if (absl::Status s = (expr); !s.ok()) return s; \
  } while (false)

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

// `field` is where the message stands in the request.
absl::Status ReadRht(std::string_view field, const v1::Rht& message,
                     int* dimension, std::optional<SignMask>* mask) {
  if (message.dimension() > kLargestDimension) {
    return FieldError(fmt::format("{}.dimension", field), "16, 32, 64 or 128",
                      fmt::to_string(message.dimension()));
  }
  if (message.dimension() != 0) {
    *dimension = static_cast<int>(message.dimension());
  }
  // A mask cannot be judged by a dimension that no mask has.
  if (!message.has_sign_mask() || *dimension % 16 != 0) {
    return absl::OkStatus();
  }
  absl::StatusOr<SignMask> read =
      SignMaskFromBytes(message.sign_mask(), *dimension);
  if (!read.ok()) return read.status();
  *mask = *read;
  return absl::OkStatus();
}

// The plan and the sign mask know one name for the rotation, "rht";
// DequantizeRequest has another.
absl::Status RenameRht(absl::Status status) {
  const std::optional<FieldViolation> v = GetFieldViolation(status);
  if (!v || !v->field.starts_with("rht.")) return status;
  return FieldError("inverse_" + v->field, v->expected, v->got);
}

Usage ReadUsage(v1::Usage usage) {
  return usage == v1::USAGE_UNSPECIFIED ? Usage::kRowwise
                                        : static_cast<Usage>(usage);
}

absl::Status PayloadSize(std::string_view expected, size_t got) {
  return FieldError("payload", expected, fmt::format("{} bytes", got));
}

// Requests of one tensor: the payload is the tensor.
absl::Status WholePayload(const Range& payload, Request* request) {
  const size_t expected = request->plan->input_bytes();
  if (payload.size != expected) {
    return PayloadSize(fmt::format("{} bytes", expected), payload.size);
  }
  request->sources = {{payload, ""}};
  return absl::OkStatus();
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

absl::Status Read(const v1::QuantizeRequest& message, const Range& payload,
                  Request* request) {
  absl::StatusOr<TensorDesc> tensor = ReadTensor(message.tensor());
  if (!tensor.ok()) return tensor.status();
  QuantizeOptions options;
  options.format = static_cast<Format>(message.format());
  options.usage = ReadUsage(message.usage());
  options.rht.rowwise = message.rht().rowwise();
  options.rht.columnwise = message.rht().columnwise();
  QUANTD_RETURN_IF_ERROR(ReadRht("rht", message.rht(), &options.rht.dimension,
                                 &options.rht.sign_mask));
  options.non_finite = static_cast<NonFinite>(message.non_finite());
  const v1::GivenAmax& amax = message.given_amax();
  if (amax.has_rowwise()) options.rowwise_amax = {amax.rowwise()};
  if (amax.has_columnwise()) options.columnwise_amax = {amax.columnwise()};
  QUANTD_RETURN_IF_ERROR(Adopt(MakeQuantizePlan(*tensor, options), request));
  return WholePayload(payload, request);
}

absl::Status Read(const v1::RhtAmaxRequest& message, const Range& payload,
                  Request* request) {
  absl::StatusOr<TensorDesc> tensor = ReadTensor(message.tensor());
  if (!tensor.ok()) return tensor.status();
  RhtAmaxOptions options;
  options.rowwise = message.rowwise();
  options.rowwise_rht = message.rowwise_rht();
  options.columnwise = message.columnwise();
  options.columnwise_rht = message.columnwise_rht();
  QUANTD_RETURN_IF_ERROR(ReadRht("rht", message.rht(), &options.rht_dimension,
                                 &options.sign_mask));
  options.non_finite = static_cast<NonFinite>(message.non_finite());
  QUANTD_RETURN_IF_ERROR(Adopt(MakeRhtAmaxPlan(*tensor, options), request));
  return WholePayload(payload, request);
}

absl::Status Read(const v1::ApplyRhtRequest& message, const Range& payload,
                  Request* request) {
  absl::StatusOr<TensorDesc> tensor = ReadTensor(message.tensor());
  if (!tensor.ok()) return tensor.status();
  ApplyRhtOptions options;
  options.inverse = message.inverse();
  options.output = static_cast<DType>(message.output());
  QUANTD_RETURN_IF_ERROR(ReadRht("rht", message.rht(), &options.rht_dimension,
                                 &options.sign_mask));
  QUANTD_RETURN_IF_ERROR(Adopt(MakeApplyRhtPlan(*tensor, options), request));
  return WholePayload(payload, request);
}

bool IsAmax(TensorKind kind) {
  return kind == TensorKind::kRowwiseAmax ||
         kind == TensorKind::kColumnwiseAmax;
}

template <typename T>
std::string NameOrNumber(T value) {
  const std::string_view name = Name(value);
  return name == "unspecified"
             ? fmt::format("number {}", static_cast<int>(value))
             : std::string(name);
}

// One ref against what the plan wants of its kind; its place on success.
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
  if (ref.size() != want.size) {
    return FieldError(fmt::format("{}.size", field),
                      fmt::format("{} bytes of {}", want.size, Name(want.kind)),
                      fmt::format("{} bytes", ref.size()));
  }
  // By subtraction: offset + size may wrap.
  if (want.size > payload.size || ref.offset() > payload.size - want.size) {
    return FieldError(
        fmt::format("{}.offset", field),
        fmt::format("{} bytes inside a payload of {}", want.size, payload.size),
        fmt::format("offset {}", ref.offset()));
  }
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
  size_t given = 0;  // bytes a literal stands for, which may be left out
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
    // The amax is the last one, so that leaving it out moves nothing.
    if (!request->sources[i].literal.empty()) continue;
    request->sources[i].range = {offset, inputs[i].size};
    offset += inputs[i].size;
  }
  return absl::OkStatus();
}

absl::Status Read(const v1::DequantizeRequest& message, const Range& payload,
                  Request* request) {
  absl::StatusOr<TensorDesc> tensor = ReadTensor(message.tensor());
  if (!tensor.ok()) return tensor.status();
  DequantizeOptions options;
  options.format = static_cast<Format>(message.format());
  options.usage = ReadUsage(message.usage());
  options.output = static_cast<DType>(message.output());
  options.inverse_rht = message.has_inverse_rht();
  QUANTD_RETURN_IF_ERROR(
      RenameRht(ReadRht("inverse_rht", message.inverse_rht(),
                        &options.rht_dimension, &options.sign_mask)));
  QUANTD_RETURN_IF_ERROR(
      RenameRht(Adopt(MakeDequantizePlan(*tensor, options), request)));
  request->sources.resize(request->plan->inputs().size());
  if (message.has_amax()) {
    const float amax = message.amax();
    if (!std::isfinite(amax) || amax < 0) {
      return FieldError("amax", "a finite number >= 0", fmt::to_string(amax));
    }
    for (size_t i = 0; i < request->sources.size(); ++i) {
      if (!IsAmax(request->plan->inputs()[i].kind)) continue;
      request->sources[i].literal.assign(reinterpret_cast<const char*>(&amax),
                                         sizeof amax);
    }
  }
  return message.tensors_size() > 0 ? ReadRefs(message, payload, request)
                                    : ReadBackToBack(payload, request);
}

template <typename Message>
absl::StatusOr<Request> Parse(const Split& split) {
  // An arena, so that many small sub-messages cost few allocations.
  google::protobuf::Arena arena;
  auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (!message->ParseFromString(split.head)) {
    return Malformed("a field inside it is not valid");
  }
  Request request;
  QUANTD_RETURN_IF_ERROR(Read(*message, split.payload, &request));
  return request;
}

#undef QUANTD_RETURN_IF_ERROR

}  // namespace

std::string_view Name(Method m) {
  switch (m) {
    case Method::kQuantize:
      return "Quantize";
    case Method::kDequantize:
      return "Dequantize";
    case Method::kRhtAmax:
      return "RhtAmax";
    case Method::kApplyRht:
      return "ApplyRht";
  }
  return "";
}

absl::StatusOr<Request> ParseRequest(Method method, Slices message) {
  absl::StatusOr<Split> split = SplitPayload(message);
  if (!split.ok()) return split.status();
  switch (method) {
    case Method::kQuantize:
      return Parse<v1::QuantizeRequest>(*split);
    case Method::kDequantize:
      return Parse<v1::DequantizeRequest>(*split);
    case Method::kRhtAmax:
      return Parse<v1::RhtAmaxRequest>(*split);
    case Method::kApplyRht:
      return Parse<v1::ApplyRhtRequest>(*split);
  }
  return absl::InternalError("no such method");
}

}  // namespace quantd::wire
