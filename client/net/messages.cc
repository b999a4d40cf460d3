#include "client/net/messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "kernels/plan/field_error.h"
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

// `mask` was settled by the plan.
v1::Rht ToProto(int dimension, const std::optional<SignMask>& mask) {
  v1::Rht out;
  out.set_dimension(static_cast<uint32_t>(dimension));
  out.set_sign_mask(
      SignMaskToBytes(mask.value_or(DefaultSignMask(dimension)), dimension));
  return out;
}

v1::CopyForm ToProto(const CopyForm& form) {
  v1::CopyForm out;
  out.set_scale_layout(wire::ToProto(form.scale_layout));
  out.set_compact_scales(form.compact_scales);
  out.set_row_scaled(form.row_scaled);
  out.set_scale_256(form.scale_256);
  return out;
}

v1::Splits ToProto(const std::vector<int64_t>& splits, bool partial) {
  v1::Splits out;
  out.mutable_rows()->Assign(splits.begin(), splits.end());
  out.set_partial(partial);
  return out;
}

v1::History ToProto(const HistoryOptions& history) {
  v1::History out;
  out.mutable_amax()->Assign(history.amax.begin(), history.amax.end());
  out.set_rule(wire::ToProto(history.rule));
  out.set_margin(history.margin);
  return out;
}

// One value goes where older servers look for it.
v1::GivenAmax GivenAmax(const std::vector<float>& rowwise,
                        const std::vector<float>& columnwise) {
  v1::GivenAmax out;
  if (rowwise.size() == 1) {
    out.set_rowwise(rowwise[0]);
  } else {
    out.mutable_rowwise_values()->Assign(rowwise.begin(), rowwise.end());
  }
  if (columnwise.size() == 1) {
    out.set_columnwise(columnwise[0]);
  } else {
    out.mutable_columnwise_values()->Assign(columnwise.begin(),
                                            columnwise.end());
  }
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
  if (!options.rowwise_amax.empty() || !options.columnwise_amax.empty()) {
    *request.mutable_given_amax() =
        GivenAmax(options.rowwise_amax, options.columnwise_amax);
  }
  *request.mutable_form() = ToProto(options.form);
  request.set_rounding(wire::ToProto(options.rounding));
  if (options.rounding == Rounding::kStochastic) {
    request.mutable_stochastic()->set_seed(options.stochastic.seed);
    request.mutable_stochastic()->set_seed_offset(
        options.stochastic.seed_offset);
    request.mutable_shard()->set_row_offset(options.shard.row_offset);
    request.mutable_shard()->set_column_offset(options.shard.column_offset);
    request.mutable_shard()->set_total_columns(options.shard.total_columns);
  }
  request.set_four_over_six(wire::ToProto(options.four_over_six));
  request.set_fast_error(options.fast_error);
  if (options.amax_estimation_scale) {
    request.set_amax_estimation_scale(*options.amax_estimation_scale);
  }
  request.set_epsilon(options.epsilon);
  if (options.power_of_two) request.set_power_of_two(*options.power_of_two);
  request.mutable_scale()->Assign(options.scale.begin(), options.scale.end());
  if (options.history) *request.mutable_history() = ToProto(*options.history);
  request.set_scale_rule(wire::ToProto(options.scale_rule));
  if (options.splits) {
    *request.mutable_splits() =
        ToProto(*options.splits, options.partial_splits);
  }
  request.set_amax(options.amax);
  request.set_dbias(options.dbias);
  request.set_dbias_dtype(wire::ToProto(options.dbias_dtype));
  request.set_statistics(options.statistics);
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
  request.set_rotated_dimension(
      static_cast<uint32_t>(options.rotated_dimension));
  *request.mutable_form() = ToProto(options.form);
  if (options.splits) {
    *request.mutable_splits() =
        ToProto(*options.splits, options.partial_splits);
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
  if (options.rowwise_rht || options.columnwise_rht) {
    *request.mutable_rht() = ToProto(options.rht_dimension, options.sign_mask);
  }
  request.set_domain(wire::ToProto(options.domain));
  if (options.splits) {
    *request.mutable_splits() =
        ToProto(*options.splits, options.partial_splits);
  }
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

}  // namespace

absl::StatusOr<std::string> RequestHead(const Plan& plan, size_t payload) {
  std::string head = std::visit(
      [&](const auto& options) { return Fields(plan.tensor(), options); },
      plan.options());
  // Lists of groups and of amaxes may be long: as the server will count them.
  if (head.size() > wire::kMaxHeadBytes) {
    const std::string_view whole = head;
    const auto split =
        wire::SplitRequest(wire::kMethods[plan.options().index()], {&whole, 1});
    if (!split.ok()) return split.status();
  }
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
    const auto address = reinterpret_cast<uintptr_t>(into[i].bytes.data());
    if (address % SizeOf(spec->dtype) != 0) {
      return FieldError(field,
                        fmt::format("memory aligned for {}", Name(spec->dtype)),
                        fmt::format("address {:#x}", address));
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

}  // namespace quantd::client
