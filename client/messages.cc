#include "client/messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/result_builder.h"
#include "fmt/format.h"
#include "kernels/field_error.h"
#include "proto/wire.h"
#include "quantd.pb.h"

namespace quantd::client {
namespace {

// What a protobuf message may measure at most, less some room for the frame.
constexpr size_t kMaxMessageBytes =
    std::numeric_limits<int32_t>::max() - (size_t{64} << 10);
constexpr uint32_t kPayloadTag = 101 << 3 | 2;

v1::Tensor ToProto(const TensorDesc& tensor, bool with_dtype) {
  v1::Tensor out;
  if (with_dtype) out.set_dtype(wire::ToProto(tensor.dtype));
  for (int64_t d : tensor.shape) out.add_shape(d);
  out.set_flatten_axis(tensor.flatten_axis);
  return out;
}

v1::Rht ToProto(int dimension, const SignMask& mask) {
  v1::Rht out;
  out.set_dimension(static_cast<uint32_t>(dimension));
  out.set_sign_mask(SignMaskToBytes(mask, dimension));
  return out;
}

// The serialized fields of the request, one overload for each kind.
std::string Fields(const TensorDesc& tensor, const QuantizeOptions& options) {
  v1::QuantizeRequest request;
  *request.mutable_tensor() = ToProto(tensor, true);
  request.set_format(wire::ToProto(options.format));
  request.set_usage(wire::ToProto(options.usage));
  request.set_non_finite(wire::ToProto(options.non_finite));
  if (options.rht.rowwise || options.rht.columnwise) {
    v1::Rht& rht = *request.mutable_rht();
    rht = ToProto(options.rht.dimension, options.rht.sign_mask);
    rht.set_rowwise(options.rht.rowwise);
    rht.set_columnwise(options.rht.columnwise);
  }
  if (options.rowwise_amax) {
    request.mutable_given_amax()->set_rowwise(*options.rowwise_amax);
  }
  if (options.columnwise_amax) {
    request.mutable_given_amax()->set_columnwise(*options.columnwise_amax);
  }
  return request.SerializeAsString();
}

std::string Fields(const TensorDesc& tensor, const DequantizeOptions& options) {
  v1::DequantizeRequest request;
  *request.mutable_tensor() = ToProto(tensor, false);
  request.set_format(wire::ToProto(options.format));
  request.set_usage(wire::ToProto(options.usage));
  request.set_output(wire::ToProto(options.output));
  if (options.inverse_rht) {
    *request.mutable_inverse_rht() =
        ToProto(options.rht_dimension, options.sign_mask);
  }
  return request.SerializeAsString();
}

std::string Fields(const TensorDesc& tensor, const RhtAmaxOptions& options) {
  v1::RhtAmaxRequest request;
  *request.mutable_tensor() = ToProto(tensor, true);
  request.set_rowwise(options.rowwise);
  request.set_rowwise_rht(options.rowwise_rht);
  request.set_columnwise(options.columnwise);
  request.set_columnwise_rht(options.columnwise_rht);
  request.set_non_finite(wire::ToProto(options.non_finite));
  *request.mutable_rht() = ToProto(options.rht_dimension, options.sign_mask);
  return request.SerializeAsString();
}

std::string Fields(const TensorDesc& tensor, const ApplyRhtOptions& options) {
  v1::ApplyRhtRequest request;
  *request.mutable_tensor() = ToProto(tensor, true);
  request.set_inverse(options.inverse);
  request.set_output(wire::ToProto(options.output));
  *request.mutable_rht() = ToProto(options.rht_dimension, options.sign_mask);
  return request.SerializeAsString();
}

template <typename Reply>
absl::StatusOr<Result> ReadAs(const Plan& plan,
                              absl::Span<const std::string_view> slices,
                              absl::Span<const Destination> into,
                              int attempts) {
  const auto split = wire::SplitPayload(slices);
  Reply reply;
  if (!split.ok() || !reply.ParseFromString(split->head)) {
    return absl::InternalError("the reply is not a message of quantd.v1");
  }
  ResultBuilder builder(plan, into);
  for (const v1::TensorRef& ref : reply.tensors()) {
    ResultBuilder::Source source;
    source.kind = wire::FromProto(ref.kind());
    source.dtype = wire::FromProto(ref.dtype());
    source.shape.assign(ref.shape().begin(), ref.shape().end());
    source.offset = ref.offset();
    source.size = ref.size();
    if (ref.layout() != v1::LAYOUT_LINEAR) continue;
    if (auto s = builder.Add(source, slices, split->payload.offset,
                             split->payload.size);
        !s.ok()) {
      return s;
    }
  }
  return builder.Take({.saw_nan = reply.report().saw_nan(),
                       .saw_inf = reply.report().saw_inf(),
                       .device = reply.report().device(),
                       .request_id = reply.request_id(),
                       .attempts = attempts});
}

}  // namespace

absl::StatusOr<std::string> RequestHead(const Plan& plan, size_t payload) {
  std::string head = std::visit(
      [&](const auto& options) { return Fields(plan.tensor(), options); },
      plan.options());
  if (payload > kMaxMessageBytes - head.size() - 16) {
    return FieldError("payload",
                      fmt::format("at most {} bytes in one call; split the "
                                  "tensor along its rows and give the parts "
                                  "one amax",
                                  kMaxMessageBytes),
                      fmt::format("{} bytes", payload));
  }
  if (payload == 0) return head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(kPayloadTag);
  out.WriteVarint32(static_cast<uint32_t>(payload));
  out.Trim();
  return head;
}

absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into) {
  for (size_t i = 0; i < into.size(); ++i) {
    const std::string field = absl::StrCat("into[", i, "]");
    const TensorSpec* spec = plan.output(into[i].kind);
    if (spec == nullptr) {
      return FieldError(field, "a part this call gives",
                        std::string(Name(into[i].kind)));
    }
    if (into[i].bytes.size() != spec->size) {
      return FieldError(
          field, fmt::format("{} bytes for {}", spec->size, Name(spec->kind)),
          fmt::format("{} bytes", into[i].bytes.size()));
    }
    for (size_t k = 0; k < i; ++k) {
      if (into[k].kind == into[i].kind) {
        return FieldError(field, "every part once",
                          fmt::format("{} again", Name(into[i].kind)));
      }
    }
  }
  return absl::OkStatus();
}

const char* MethodPath(const Plan& plan) {
  constexpr const char* kPaths[] = {
      "/quantd.v1.Quantd/Quantize", "/quantd.v1.Quantd/Dequantize",
      "/quantd.v1.Quantd/RhtAmax", "/quantd.v1.Quantd/ApplyRht"};
  return kPaths[plan.options().index()];
}

absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 int attempts) {
  switch (plan.options().index()) {
    case 0:
      return ReadAs<v1::QuantizeReply>(plan, slices, into, attempts);
    case 1:
      return ReadAs<v1::DequantizeReply>(plan, slices, into, attempts);
    case 2:
      return ReadAs<v1::RhtAmaxReply>(plan, slices, into, attempts);
    default:
      return ReadAs<v1::ApplyRhtReply>(plan, slices, into, attempts);
  }
}

absl::StatusOr<ServerInfo> ReadServerInfo(
    absl::Span<const std::string_view> slices) {
  std::string bytes;
  for (std::string_view s : slices) bytes += s;
  v1::GetServerInfoReply reply;
  if (!reply.ParseFromString(bytes)) {
    return absl::InternalError("the reply is not a message of quantd.v1");
  }
  ServerInfo info;
  info.version = reply.version();
  info.max_request_bytes = reply.limits().max_request_bytes();
  info.memory_budget_bytes = reply.limits().memory_budget_bytes();
  info.max_rank = static_cast<int>(reply.limits().max_rank());
  for (const v1::Device& d : reply.devices()) {
    DeviceInfo device;
    device.name = d.name();
    device.kind = d.kind();
    device.description = d.description();
    device.healthy = d.state() == v1::Device::STATE_HEALTHY;
    device.memory_limit_bytes = d.memory_limit_bytes();
    device.memory_high_water_bytes = d.memory_high_water_bytes();
    device.jobs = d.jobs();
    device.rht_cache_hits = d.rht_cache_hits();
    device.rht_cache_misses = d.rht_cache_misses();
    device.rht_launches = d.rht_launches();
    info.devices.push_back(std::move(device));
  }
  for (const v1::FormatSupport& f : reply.formats()) {
    FormatSupport support;
    support.format = static_cast<Format>(f.format());
    if (FindFormat(support.format) == nullptr) {
      support.format = Format::kUnspecified;
    }
    support.name = f.name();
    support.device_kinds.assign(f.device_kinds().begin(),
                                f.device_kinds().end());
    for (int t : f.inputs()) {
      support.inputs.push_back(wire::FromProto(static_cast<v1::DType>(t)));
    }
    for (int u : f.usages()) {
      support.usages.push_back(static_cast<Usage>(u));
    }
    support.rht_dimensions.assign(f.rht_dimensions().begin(),
                                  f.rht_dimensions().end());
    info.formats.push_back(std::move(support));
  }
  return info;
}

}  // namespace quantd::client
