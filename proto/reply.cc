// From a finished Plan to the reply that describes it, and the enum bridges.
#include <optional>
#include <variant>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

void WriteTensor(const Plan& plan, bool with_dtype, v1::Tensor* out) {
  const TensorDesc& tensor = plan.tensor();
  if (with_dtype) out->set_dtype(ToProto(tensor.dtype));
  for (int64_t d : tensor.shape) out->add_shape(d);
  out->set_flatten_axis(tensor.flatten_axis);
}

void WriteRht(int dimension, const SignMask& mask, v1::Rht* out) {
  out->set_dimension(static_cast<uint32_t>(dimension));
  out->set_sign_mask(SignMaskToBytes(mask, dimension));
}

void WriteForm(const CopyForm& form, v1::CopyForm* out) {
  out->set_scale_layout(ToProto(form.scale_layout));
  out->set_compact_scales(form.compact_scales);
  out->set_row_scaled(form.row_scaled);
  out->set_scale_256(form.scale_256);
}

template <typename Options, typename Message>
void WriteSplits(const Options& options, Message* out) {
  if (!options.splits) return;
  out->mutable_splits()->mutable_rows()->Assign(options.splits->begin(),
                                                options.splits->end());
  out->mutable_splits()->set_partial(options.partial_splits);
}

template <typename Message>
void WriteOutputs(const Plan& plan, Message* out) {
  for (const TensorSpec& spec : plan.outputs()) {
    v1::TensorRef* ref = out->add_tensors();
    ref->set_kind(ToProto(spec.kind));
    ref->set_dtype(ToProto(spec.dtype));
    ref->set_layout(ToProto(spec.layout));
    for (int64_t d : spec.shape) ref->add_shape(d);
    ref->set_offset(spec.offset);
    ref->set_size(spec.size);
    ref->mutable_group_offsets()->Assign(spec.group_offsets.begin(),
                                         spec.group_offsets.end());
  }
}

void WriteStatistics(const ErrorStatistics& s, v1::ErrorStatistics* out) {
  out->set_elements(s.elements);
  out->set_clipped(s.clipped);
  out->set_flushed(s.flushed);
  out->set_max_error(s.max_error);
  out->set_signal(s.signal);
  out->set_noise(s.noise);
  out->set_sqnr_db(s.sqnr_db());
}

// What every reply has.
template <typename Reply>
void WriteCommon(const Plan& plan, const JobReport& report,
                 std::string_view device, std::string_view request_id,
                 Reply* reply) {
  WriteOutputs(plan, reply);
  v1::Report* out = reply->mutable_report();
  out->set_saw_nan(report.saw_nan);
  out->set_saw_inf(report.saw_inf);
  out->set_device(std::string(device));
  if (report.rowwise) WriteStatistics(*report.rowwise, out->mutable_rowwise());
  if (report.columnwise) {
    WriteStatistics(*report.columnwise, out->mutable_columnwise());
  }
  reply->set_request_id(std::string(request_id));
}

void WriteAmax(const QuantizeOptions& o, v1::GivenAmax* out) {
  if (o.rowwise_amax.size() == 1) {
    out->set_rowwise(o.rowwise_amax[0]);
  } else {
    out->mutable_rowwise_values()->Assign(o.rowwise_amax.begin(),
                                          o.rowwise_amax.end());
  }
  if (o.columnwise_amax.size() == 1) {
    out->set_columnwise(o.columnwise_amax[0]);
  } else {
    out->mutable_columnwise_values()->Assign(o.columnwise_amax.begin(),
                                             o.columnwise_amax.end());
  }
}

// What determines the bits of stochastic rounding, and nothing else.
void WriteStochastic(const QuantizeOptions& o, v1::QuantizeReply* out) {
  if (o.rounding != Rounding::kStochastic) return;
  out->mutable_stochastic()->set_seed(o.stochastic.seed);
  out->mutable_stochastic()->set_seed_offset(o.stochastic.seed_offset);
  out->mutable_shard()->set_row_offset(o.shard.row_offset);
  out->mutable_shard()->set_column_offset(o.shard.column_offset);
  out->mutable_shard()->set_total_columns(o.shard.total_columns);
}

void WriteHistory(const HistoryOptions& history, v1::History* out) {
  out->mutable_amax()->Assign(history.amax.begin(), history.amax.end());
  out->set_rule(ToProto(history.rule));
  out->set_margin(history.margin);
}

// Everything that determines the bytes, defaults filled in.
v1::QuantizeReply Echo(const Plan& plan, const QuantizeOptions& options) {
  v1::QuantizeReply reply;
  WriteTensor(plan, /*with_dtype=*/true, reply.mutable_tensor());
  reply.set_format(ToProto(options.format));
  reply.set_usage(ToProto(options.usage));
  if (options.rht.rowwise || options.rht.columnwise) {
    v1::Rht* rht = reply.mutable_rht();
    rht->set_rowwise(options.rht.rowwise);
    rht->set_columnwise(options.rht.columnwise);
    WriteRht(options.rht.dimension, *options.rht.sign_mask, rht);
  }
  reply.set_non_finite(ToProto(options.non_finite));
  if (!options.rowwise_amax.empty() || !options.columnwise_amax.empty()) {
    WriteAmax(options, reply.mutable_given_amax());
  }
  WriteForm(options.form, reply.mutable_form());
  reply.set_rounding(ToProto(options.rounding));
  WriteStochastic(options, &reply);
  reply.set_four_over_six(ToProto(options.four_over_six));
  reply.set_fast_error(options.fast_error);
  if (options.amax_estimation_scale) {
    reply.set_amax_estimation_scale(*options.amax_estimation_scale);
  }
  reply.set_epsilon(options.epsilon);
  if (options.power_of_two) reply.set_power_of_two(*options.power_of_two);
  reply.mutable_scale()->Assign(options.scale.begin(), options.scale.end());
  if (options.history) WriteHistory(*options.history, reply.mutable_history());
  reply.set_scale_rule(ToProto(options.scale_rule));
  WriteSplits(options, &reply);
  reply.set_amax(options.amax);
  reply.set_dbias(options.dbias);
  if (options.dbias) reply.set_dbias_dtype(ToProto(options.dbias_dtype));
  reply.set_statistics(options.statistics);
  return reply;
}

v1::DequantizeReply Echo(const Plan& plan, const DequantizeOptions& options) {
  v1::DequantizeReply reply;
  WriteTensor(plan, /*with_dtype=*/false, reply.mutable_tensor());
  reply.set_format(ToProto(options.format));
  reply.set_usage(ToProto(options.usage));
  reply.set_output(ToProto(options.output));
  if (options.inverse_rht) {
    v1::Rht* rht = reply.mutable_inverse_rht();
    rht->set_rowwise(HasRowwise(options.usage));
    rht->set_columnwise(HasColumnwise(options.usage));
    WriteRht(options.rht_dimension, *options.sign_mask, rht);
  }
  reply.set_rotated_dimension(static_cast<uint32_t>(options.rotated_dimension));
  WriteForm(options.form, reply.mutable_form());
  WriteSplits(options, &reply);
  return reply;
}

v1::RhtAmaxReply Echo(const Plan& plan, const RhtAmaxOptions& options) {
  v1::RhtAmaxReply reply;
  WriteTensor(plan, /*with_dtype=*/true, reply.mutable_tensor());
  if (options.rowwise_rht || options.columnwise_rht) {
    v1::Rht* rht = reply.mutable_rht();
    rht->set_rowwise(options.rowwise_rht);
    rht->set_columnwise(options.columnwise_rht);
    WriteRht(options.rht_dimension, *options.sign_mask, rht);
  }
  reply.set_non_finite(ToProto(options.non_finite));
  reply.set_domain(ToProto(options.domain));
  WriteSplits(options, &reply);
  return reply;
}

v1::ApplyRhtReply Echo(const Plan& plan, const ApplyRhtOptions& options) {
  v1::ApplyRhtReply reply;
  WriteTensor(plan, /*with_dtype=*/true, reply.mutable_tensor());
  reply.set_inverse(options.inverse);
  reply.set_output(ToProto(options.output));
  reply.mutable_rht()->set_rowwise(true);
  WriteRht(options.rht_dimension, *options.sign_mask, reply.mutable_rht());
  return reply;
}

// Tag and length of field 101.
void AppendPayloadPrefix(size_t size, std::string* out) {
  constexpr uint32_t kTag = v1::QuantizeReply::kPayloadFieldNumber << 3 | 2;
  static_assert(v1::DequantizeReply::kPayloadFieldNumber << 3 == kTag - 2 &&
                v1::RhtAmaxReply::kPayloadFieldNumber << 3 == kTag - 2 &&
                v1::ApplyRhtReply::kPayloadFieldNumber << 3 == kTag - 2);
  using google::protobuf::io::CodedOutputStream;
  uint8_t bytes[16];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kTag, bytes);
  end = CodedOutputStream::WriteVarint64ToArray(size, end);
  out->append(reinterpret_cast<char*>(bytes), end - bytes);
}

// proto3 enums are open: a number without a name becomes 0.
template <typename To, typename From>
To Bridge(From from, bool (*valid)(int)) {
  const int number = static_cast<int>(from);
  return valid(number) ? static_cast<To>(number) : static_cast<To>(0);
}

}  // namespace

std::string ReplyHead(const Plan& plan, const JobReport& report,
                      std::string_view device, std::string_view request_id) {
  return std::visit(
      [&](const auto& options) {
        auto reply = Echo(plan, options);
        WriteCommon(plan, report, device, request_id, &reply);
        std::string head = reply.SerializeAsString();
        AppendPayloadPrefix(plan.output_bytes(), &head);
        return head;
      },
      plan.options());
}

std::string DescribeReply(const Plan& plan, std::string_view request_id) {
  v1::DescribeQuantizeReply reply;
  WriteOutputs(plan, &reply);
  reply.set_input_bytes(plan.input_bytes());
  reply.set_output_bytes(plan.output_bytes());
  reply.set_scratch_bytes(plan.scratch_bytes());
  reply.set_request_id(std::string(request_id));
  return reply.SerializeAsString();
}

v1::DType ToProto(DType t) { return Bridge<v1::DType>(t, v1::DType_IsValid); }
v1::Layout ToProto(Layout l) {
  return Bridge<v1::Layout>(l, v1::Layout_IsValid);
}
v1::TensorKind ToProto(TensorKind k) {
  return Bridge<v1::TensorKind>(k, v1::TensorKind_IsValid);
}
v1::Usage ToProto(Usage u) { return Bridge<v1::Usage>(u, v1::Usage_IsValid); }
v1::Format ToProto(Format f) {
  return Bridge<v1::Format>(f, v1::Format_IsValid);
}
v1::NonFinite ToProto(NonFinite n) {
  return Bridge<v1::NonFinite>(n, v1::NonFinite_IsValid);
}
v1::Rounding ToProto(Rounding r) {
  return Bridge<v1::Rounding>(r, v1::Rounding_IsValid);
}
v1::ScaleRule ToProto(ScaleRule r) {
  return Bridge<v1::ScaleRule>(r, v1::ScaleRule_IsValid);
}
v1::FourOverSix ToProto(FourOverSix f) {
  return Bridge<v1::FourOverSix>(f, v1::FourOverSix_IsValid);
}
v1::AmaxDomain ToProto(AmaxDomain d) {
  return Bridge<v1::AmaxDomain>(d, v1::AmaxDomain_IsValid);
}
v1::HistoryRule ToProto(HistoryRule r) {
  return Bridge<v1::HistoryRule>(r, v1::HistoryRule_IsValid);
}
DType FromProto(v1::DType t) { return Bridge<DType>(t, v1::DType_IsValid); }
Layout FromProto(v1::Layout l) { return Bridge<Layout>(l, v1::Layout_IsValid); }
Format FromProto(v1::Format f) { return Bridge<Format>(f, v1::Format_IsValid); }
TensorKind FromProto(v1::TensorKind k) {
  return Bridge<TensorKind>(k, v1::TensorKind_IsValid);
}

}  // namespace quantd::wire
