// From a finished plan to the reply that describes it, and back.
#include <utility>

#include "proto/messages.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

template <typename Message>
void WriteOutputs(const Plan& plan, Message* out) {
  for (const TensorSpec& spec : plan.outputs()) {
    *out->add_tensors() = ToProto(spec);
  }
}

}  // namespace

Method MethodOf(const Plan& plan) {
  return std::visit(
      [](const auto& options) {
        return TensorRpc<std::decay_t<decltype(options)>>::kMethod;
      },
      plan.options());
}

std::string ReplyHead(const Plan& plan, const JobReport& report,
                      std::string_view device, std::string_view request_id) {
  return std::visit(
      [&](const auto& options) {
        using Options = std::decay_t<decltype(options)>;
        typename TensorRpc<Options>::Reply reply;
        WriteOutputs(plan, &reply);
        *reply.mutable_tensor() = TensorOf(plan);
        *reply.mutable_options() = ToProto(options);
        *reply.mutable_report() = ToProto(report, device);
        reply.set_request_id(std::string(request_id));
        std::string head = reply.SerializeAsString();
        AppendPayloadPrefix(plan.output_bytes(), &head);
        return head;
      },
      plan.options());
}

absl::StatusOr<Reply> ParseReply(Method method, Slices message) {
  if (!SpecOf(method).tensor) {
    return absl::InternalError("not the reply of a tensor method");
  }
  const absl::StatusOr<SeparatedMessage> separated =
      SeparatePayload(message, kMaxReplyHeadBytes);
  if (!separated.ok()) return separated.status();
  return WithOptionsOf(method, [&](auto type) -> absl::StatusOr<Reply> {
    typename TensorRpc<typename decltype(type)::type>::Reply read;
    if (!read.ParseFromString(separated->head)) {
      return Malformed("a field inside it is not valid");
    }
    Reply reply;
    for (const v1::TensorRef& ref : read.tensors()) {
      reply.tensors.push_back(FromProto(ref));
    }
    reply.report = FromProto(read.report());
    reply.device = read.report().device();
    reply.request_id = read.request_id();
    reply.payload = separated->payload;
    return reply;
  });
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

}  // namespace quantd::wire
