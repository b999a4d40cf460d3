// Conversion between the types of include/quantd and the messages of
// quantd.proto, in both directions: the server reads requests and writes
// replies, the client writes requests and reads replies.
//
// FromProto refuses only values that the types cannot hold, with a FieldError
// that names the field. Making a plan checks which values and combinations are
// legal.
#ifndef QUANTD_PROTO_MESSAGES_H_
#define QUANTD_PROTO_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "kernels/plan/shards.h"
#include "proto/methods.h"
#include "quantd.pb.h"
#include "quantd/plan.h"

namespace quantd::wire {

// The messages of a tensor method, and their fields in the messages of a
// stream. The template argument is the Options type of the method's plans.
template <typename Options>
struct TensorRpc;
template <>
struct TensorRpc<QuantizeOptions> {
  static constexpr Method kMethod = Method::kQuantize;
  static constexpr auto kMakePlan = &MakeQuantizePlan;
  using Request = v1::QuantizeRequest;
  using Reply = v1::QuantizeReply;
  static constexpr auto kAsked = &v1::StreamRequest::quantize;
  static constexpr auto kAsk = &v1::StreamRequest::mutable_quantize;
  static constexpr auto kAnswered = &v1::StreamReply::quantize;
  static constexpr auto kAnswer = &v1::StreamReply::mutable_quantize;
};
template <>
struct TensorRpc<DequantizeOptions> {
  static constexpr Method kMethod = Method::kDequantize;
  static constexpr auto kMakePlan = &MakeDequantizePlan;
  using Request = v1::DequantizeRequest;
  using Reply = v1::DequantizeReply;
  static constexpr auto kAsked = &v1::StreamRequest::dequantize;
  static constexpr auto kAsk = &v1::StreamRequest::mutable_dequantize;
  static constexpr auto kAnswered = &v1::StreamReply::dequantize;
  static constexpr auto kAnswer = &v1::StreamReply::mutable_dequantize;
};
template <>
struct TensorRpc<RhtAmaxOptions> {
  static constexpr Method kMethod = Method::kRhtAmax;
  static constexpr auto kMakePlan = &MakeRhtAmaxPlan;
  using Request = v1::RhtAmaxRequest;
  using Reply = v1::RhtAmaxReply;
  static constexpr auto kAsked = &v1::StreamRequest::rht_amax;
  static constexpr auto kAsk = &v1::StreamRequest::mutable_rht_amax;
  static constexpr auto kAnswered = &v1::StreamReply::rht_amax;
  static constexpr auto kAnswer = &v1::StreamReply::mutable_rht_amax;
};
template <>
struct TensorRpc<ApplyRhtOptions> {
  static constexpr Method kMethod = Method::kApplyRht;
  static constexpr auto kMakePlan = &MakeApplyRhtPlan;
  using Request = v1::ApplyRhtRequest;
  using Reply = v1::ApplyRhtReply;
  static constexpr auto kAsked = &v1::StreamRequest::apply_rht;
  static constexpr auto kAsk = &v1::StreamRequest::mutable_apply_rht;
  static constexpr auto kAnswered = &v1::StreamReply::apply_rht;
  static constexpr auto kAnswer = &v1::StreamReply::mutable_apply_rht;
};

// Returns f(std::type_identity<Options>()) for the Options of `method`, a
// tensor method.
template <size_t I = 0, typename F>
auto WithOptionsOf(Method method, F&& f) {
  using Options = std::variant_alternative_t<I, Plan::Options>;
  if constexpr (I + 1 < std::variant_size_v<Plan::Options>) {
    if (TensorRpc<Options>::kMethod != method) {
      return WithOptionsOf<I + 1>(method, std::forward<F>(f));
    }
  }
  return f(std::type_identity<Options>());
}

// Accepts one value or a list for each direction.
absl::StatusOr<CopyAmax> FromProto(const v1::GivenAmax& m,
                                   std::string_view field);
v1::GivenAmax ToProto(const CopyAmax& amax);
// Unknown numbers of enums are kept, so that the plan's error can name them.
absl::StatusOr<QuantizeOptions> FromProto(const v1::QuantizeOptions& m);
absl::StatusOr<DequantizeOptions> FromProto(const v1::DequantizeOptions& m);
absl::StatusOr<RhtAmaxOptions> FromProto(const v1::RhtAmaxOptions& m);
absl::StatusOr<ApplyRhtOptions> FromProto(const v1::ApplyRhtOptions& m);
absl::StatusOr<TensorDesc> FromProto(const v1::Tensor& m);
// The options of a plan.
v1::QuantizeOptions ToProto(const QuantizeOptions& o);
v1::DequantizeOptions ToProto(const DequantizeOptions& o);
v1::RhtAmaxOptions ToProto(const RhtAmaxOptions& o);
v1::ApplyRhtOptions ToProto(const ApplyRhtOptions& o);
// The tensor of a plan. Codes do not record the type of their tensor, so for
// Dequantize the type is set only under a profile, which may store scales in
// that type.
v1::Tensor TensorOf(const Plan& plan);

v1::TensorRef ToProto(const TensorSpec& spec);
TensorSpec FromProto(const v1::TensorRef& ref);
// Converts a report. JobReport::times are not sent.
v1::Report ToProto(const JobReport& report, std::string_view device);
JobReport FromProto(const v1::Report& report);

// Convert enums, which have the numbers of quantd/format.h. Unknown numbers
// become 0.
v1::DType ToProto(DType t);
v1::Layout ToProto(Layout l);
v1::TensorKind ToProto(TensorKind k);
v1::Usage ToProto(Usage u);
v1::Format ToProto(Format f);
v1::Profile ToProto(Profile p);
v1::NonFinite ToProto(NonFinite n);
v1::Rounding ToProto(Rounding r);
v1::ScaleRule ToProto(ScaleRule r);
v1::FourOverSix ToProto(FourOverSix f);
v1::AmaxDomain ToProto(AmaxDomain d);
v1::HistoryRule ToProto(HistoryRule r);
DType FromProto(v1::DType t);
Layout FromProto(v1::Layout l);
Format FromProto(v1::Format f);
TensorKind FromProto(v1::TensorKind k);

// The tag of the field `payload`, the same in all messages that have one.
inline constexpr uint32_t kPayloadTag =
    v1::QuantizeRequest::kPayloadFieldNumber << 3 | 2;
// Appends the tag and the length of a payload of `size` bytes.
void AppendPayloadPrefix(size_t size, std::string* out);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MESSAGES_H_
