#include "proto/messages.h"

#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

template <typename... Options>
constexpr bool PayloadsHave(uint32_t tag, std::variant<Options...>*) {
  return ((TensorRpc<Options>::Request::kPayloadFieldNumber << 3 == tag - 2 &&
           TensorRpc<Options>::Reply::kPayloadFieldNumber << 3 == tag - 2) &&
          ...);
}
static_assert(PayloadsHave(101 << 3 | 2, static_cast<Plan::Options*>(nullptr)));

// Converts an enum. Enums of proto3 are open: an unknown number becomes 0.
template <typename To, typename From>
To Bridge(From from, bool (*valid)(int)) {
  const int number = static_cast<int>(from);
  return valid(number) ? static_cast<To>(number) : static_cast<To>(0);
}

v1::ErrorStatistics StatisticsToProto(const ErrorStatistics& s) {
  v1::ErrorStatistics out;
  out.set_elements(s.elements);
  out.set_clipped(s.clipped);
  out.set_flushed(s.flushed);
  out.set_max_error(s.max_error);
  out.set_signal(s.signal);
  out.set_noise(s.noise);
  out.set_sqnr_db(s.sqnr_db());
  return out;
}

// sqnr_db is not read, because it follows from the sums.
ErrorStatistics StatisticsFromProto(const v1::ErrorStatistics& m) {
  ErrorStatistics s;
  s.elements = m.elements();
  s.clipped = m.clipped();
  s.flushed = m.flushed();
  s.max_error = m.max_error();
  s.signal = m.signal();
  s.noise = m.noise();
  return s;
}

}  // namespace

absl::StatusOr<TensorDesc> FromProto(const v1::Tensor& m) {
  if (m.shape_size() > kMaxShapeEntries) {
    return FieldError("tensor.shape",
                      fmt::format("1 to {} dimensions", kMaxShapeEntries),
                      fmt::format("{} dimensions", m.shape_size()));
  }
  TensorDesc tensor;
  // Unknown numbers are kept, so that the plan's error can name them.
  tensor.dtype = static_cast<DType>(m.dtype());
  tensor.shape.assign(m.shape().begin(), m.shape().end());
  if (m.has_flatten_axis()) tensor.flatten_axis = m.flatten_axis();
  return tensor;
}

v1::Tensor TensorOf(const Plan& plan) {
  const TensorDesc& tensor = plan.tensor();
  v1::Tensor out;
  const auto* decoding = std::get_if<DequantizeOptions>(&plan.options());
  if (decoding == nullptr || decoding->profile != Profile::kTe) {
    out.set_dtype(ToProto(tensor.dtype));
  }
  out.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  out.set_flatten_axis(tensor.flatten_axis);
  return out;
}

v1::TensorRef ToProto(const TensorSpec& spec) {
  v1::TensorRef ref;
  ref.set_kind(ToProto(spec.kind));
  ref.set_dtype(ToProto(spec.dtype));
  ref.set_layout(ToProto(spec.layout));
  ref.mutable_shape()->Assign(spec.shape.begin(), spec.shape.end());
  ref.set_offset(spec.offset);
  ref.set_size(spec.size);
  ref.mutable_group_offsets()->Assign(spec.group_offsets.begin(),
                                      spec.group_offsets.end());
  return ref;
}

TensorSpec FromProto(const v1::TensorRef& ref) {
  TensorSpec spec;
  spec.kind = FromProto(ref.kind());
  spec.dtype = FromProto(ref.dtype());
  spec.layout = FromProto(ref.layout());
  spec.shape.assign(ref.shape().begin(), ref.shape().end());
  spec.offset = ref.offset();
  spec.size = ref.size();
  spec.group_offsets.assign(ref.group_offsets().begin(),
                            ref.group_offsets().end());
  return spec;
}

v1::Report ToProto(const JobReport& report, std::string_view device) {
  v1::Report out;
  out.set_saw_nan(report.saw_nan);
  out.set_saw_inf(report.saw_inf);
  out.set_device(std::string(device));
  out.set_replaced_globals(report.replaced_globals);
  if (report.rowwise) {
    *out.mutable_rowwise() = StatisticsToProto(*report.rowwise);
  }
  if (report.columnwise) {
    *out.mutable_columnwise() = StatisticsToProto(*report.columnwise);
  }
  return out;
}

JobReport FromProto(const v1::Report& m) {
  JobReport report;
  report.saw_nan = m.saw_nan();
  report.saw_inf = m.saw_inf();
  report.replaced_globals = m.replaced_globals();
  if (m.has_rowwise()) report.rowwise = StatisticsFromProto(m.rowwise());
  if (m.has_columnwise()) {
    report.columnwise = StatisticsFromProto(m.columnwise());
  }
  return report;
}

void AppendPayloadPrefix(size_t size, std::string* out) {
  using google::protobuf::io::CodedOutputStream;
  uint8_t bytes[16];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kPayloadTag, bytes);
  end = CodedOutputStream::WriteVarint64ToArray(size, end);
  out->append(reinterpret_cast<char*>(bytes), end - bytes);
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
v1::Profile ToProto(Profile p) {
  return Bridge<v1::Profile>(p, v1::Profile_IsValid);
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
