// Serializes and parses replies.
#include <google/protobuf/message.h>

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "proto/messages.h"
#include "proto/stream/chunks.h"
#include "proto/wire.h"

namespace quantd::wire {
namespace {

template <typename Message>
void WriteOutputs(const Plan& plan, const std::vector<MemoryRange>& lent,
                  const PayloadLayout& layout, Message* out) {
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    v1::TensorRef* const ref = out->add_tensors();
    *ref = ToProto(plan.outputs()[i]);
    ref->set_offset(layout.offsets[i]);
    if (!lent.empty() && lent[i]) Write(lent[i], ref->mutable_memory());
  }
}

using ProtoMessage = google::protobuf::Message;

// Whether a field that `asked` has is in `echo`, too. An empty message need not
// be.
bool Echoes(const google::protobuf::FieldDescriptor& field,
            const ProtoMessage& asked, const ProtoMessage& echo) {
  const google::protobuf::Reflection& in_echo = *echo.GetReflection();
  if (field.is_repeated()) return in_echo.FieldSize(echo, &field) > 0;
  if (in_echo.HasField(echo, &field)) return true;
  return field.message_type() != nullptr &&
         asked.GetReflection()->GetMessage(asked, &field).ByteSizeLong() == 0;
}

absl::Status CheckEcho(const ProtoMessage& asked, const ProtoMessage& echo) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  asked.GetReflection()->ListFields(asked, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (Echoes(*field, asked, echo)) continue;
    return absl::UnimplementedError(
        fmt::format("the server does not have the option {}: it is of another "
                    "version than this client",
                    field->name()));
  }
  return absl::OkStatus();
}

template <typename Options, typename Message>
void WriteReply(const Plan& plan, const Options& options,
                const JobReport& report, std::string_view device,
                std::string_view request_id, Message* reply) {
  *reply->mutable_tensor() = TensorOf(plan);
  *reply->mutable_options() = ToProto(options);
  *reply->mutable_report() = ToProto(report, device);
  reply->set_request_id(std::string(request_id));
}

// Reads everything but the payload.
template <typename Options, typename Message>
absl::StatusOr<Reply> ReadReply(const Message& read, const Plan* asked) {
  if (asked != nullptr) {
    const auto& options = std::get<Options>(asked->options());
    const absl::Status same = CheckEcho(ToProto(options), read.options());
    if (!same.ok()) return same;
  }
  Reply reply;
  for (const v1::TensorRef& ref : read.tensors()) {
    reply.tensors.push_back(FromProto(ref));
    reply.lent.push_back(FromProto(ref.memory()));
  }
  reply.report = FromProto(read.report());
  reply.device = read.report().device();
  reply.request_id = read.request_id();
  return reply;
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
                      std::string_view device, std::string_view request_id,
                      const std::vector<MemoryRange>& outputs) {
  const PayloadLayout layout = LayOutPayload(plan, outputs);
  return std::visit(
      [&](const auto& options) {
        using Options = std::decay_t<decltype(options)>;
        typename TensorRpc<Options>::Reply reply;
        WriteOutputs(plan, outputs, layout, &reply);
        WriteReply(plan, options, report, device, request_id, &reply);
        std::string head = reply.SerializeAsString();
        if (outputs.empty() || layout.size > 0) {
          AppendPayloadPrefix(layout.size, &head);
        }
        return head;
      },
      plan.options());
}

absl::StatusOr<Reply> ParseReply(Method method, Slices message,
                                 const Plan* asked) {
  if (!SpecOf(method).tensor) {
    return absl::InternalError("not the reply of a tensor method");
  }
  const absl::StatusOr<SeparatedMessage> separated =
      SeparatePayload(message, kMaxReplyHeadBytes);
  if (!separated.ok()) return separated.status();
  return WithOptionsOf(method, [&](auto type) -> absl::StatusOr<Reply> {
    using Options = typename decltype(type)::type;
    typename TensorRpc<Options>::Reply read;
    if (!read.ParseFromString(separated->head)) {
      return Malformed("a field inside it is not valid");
    }
    auto reply = ReadReply<Options>(read, asked);
    if (reply.ok()) reply->payload = separated->payload;
    return reply;
  });
}

std::string StreamReplyHead(const Plan& plan, const JobReport& report,
                            std::string_view device,
                            std::string_view request_id) {
  v1::StreamReply last;
  std::visit(
      [&](const auto& options) {
        auto* const reply =
            (last.*TensorRpc<std::decay_t<decltype(options)>>::kAnswer)();
        WriteOutputs(plan, {}, LayOutPayload(plan, {}), reply);
        WriteReply(plan, options, report, device, request_id, reply);
      },
      plan.options());
  return last.SerializeAsString();
}

absl::StatusOr<StreamReplyPart> ParseStreamReply(Slices message,
                                                 const Plan& asked) {
  const absl::StatusOr<SeparatedMessage> separated =
      SeparatePayload(message, kMaxReplyHeadBytes);
  if (!separated.ok()) return separated.status();
  StreamReplyPart part;
  part.chunk = separated->payload;
  if (separated->head.empty()) return part;
  v1::StreamReply read;
  if (!read.ParseFromString(separated->head)) {
    return Malformed("a field inside it is not valid");
  }
  if (read.has_maxima()) {
    const v1::Maxima& m = read.maxima();
    part.maxima = FoundMaxima{{{m.rowwise().begin(), m.rowwise().end()},
                               {m.columnwise().begin(), m.columnwise().end()}},
                              m.saw_nan(),
                              m.saw_inf()};
  }
  if (read.reply_case() == v1::StreamReply::REPLY_NOT_SET) return part;
  auto reply = std::visit(
      [&](const auto& options) -> absl::StatusOr<Reply> {
        using Options = std::decay_t<decltype(options)>;
        // If the reply is for another method, this field is empty and echoes no
        // options.
        return ReadReply<Options>((read.*TensorRpc<Options>::kAnswered)(),
                                  &asked);
      },
      asked.options());
  if (!reply.ok()) return reply.status();
  part.reply = *std::move(reply);
  return part;
}

std::string DescribeReply(const Plan& plan, std::string_view request_id) {
  v1::DescribeQuantizeReply reply;
  WriteOutputs(plan, {}, LayOutPayload(plan, {}), &reply);
  reply.set_input_bytes(plan.input_bytes());
  reply.set_output_bytes(plan.output_bytes());
  reply.set_scratch_bytes(plan.scratch_bytes());
  reply.set_request_id(std::string(request_id));
  return reply.SerializeAsString();
}

}  // namespace quantd::wire
