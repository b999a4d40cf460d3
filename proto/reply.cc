// From a finished Plan to the reply that describes it, and the enum bridges.
#include <variant>

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

// What every reply has.
template <typename Reply>
void WriteCommon(const Plan& plan, const JobReport& report,
                 std::string_view device, std::string_view request_id,
                 Reply* reply) {
  for (const TensorSpec& spec : plan.outputs()) {
    v1::TensorRef* ref = reply->add_tensors();
    ref->set_kind(ToProto(spec.kind));
    ref->set_dtype(ToProto(spec.dtype));
    ref->set_layout(ToProto(spec.layout));
    for (int64_t d : spec.shape) ref->add_shape(d);
    ref->set_offset(spec.offset);
    ref->set_size(spec.size);
  }
  reply->mutable_report()->set_saw_nan(report.saw_nan);
  reply->mutable_report()->set_saw_inf(report.saw_inf);
  reply->mutable_report()->set_device(std::string(device));
  reply->set_request_id(std::string(request_id));
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
  if (!options.rowwise_amax.empty()) {
    reply.mutable_given_amax()->set_rowwise(options.rowwise_amax[0]);
  }
  if (!options.columnwise_amax.empty()) {
    reply.mutable_given_amax()->set_columnwise(options.columnwise_amax[0]);
  }
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

// proto3 enums are open: a number without a name becomes the unspecified one.
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
DType FromProto(v1::DType t) { return Bridge<DType>(t, v1::DType_IsValid); }
TensorKind FromProto(v1::TensorKind k) {
  return Bridge<TensorKind>(k, v1::TensorKind_IsValid);
}

}  // namespace quantd::wire
