// Parses a request into a plan and the ranges of its input bytes, and
// serializes the request of a plan.
#include <utility>

#include "fmt/format.h"
#include "google/protobuf/arena.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"
#include "proto/option_fields.h"
#include "proto/request_plan.h"
#include "proto/stream/chunks.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

// Makes the plan of a request. CheckReply checks whether its reply fits into a
// message.
template <typename Options>
absl::Status Adopt(const TensorDesc& tensor, const Options& options,
                   Request* request) {
  absl::StatusOr<Plan> plan = TensorRpc<Options>::kMakePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  request->plan = std::make_shared<const Plan>(*std::move(plan));
  return absl::OkStatus();
}

absl::Status CheckReply(const Request& request,
                        size_t limit = kMaxReplyPayloadBytes) {
  const size_t payload =
      LayOutPayload(*request.plan, request.lent.outputs).size;
  if (payload <= limit) return absl::OkStatus();
  return FieldError("tensor.shape",
                    fmt::format("a reply of at most {} bytes", limit),
                    fmt::format("{} bytes", payload));
}

// Renames the field of a plan's error to its name in `options`.
template <typename Message>
absl::Status Renamed(absl::Status status, const Message&) {
  return status;
}
absl::Status Renamed(absl::Status status, const v1::DequantizeOptions&) {
  return RenameField(std::move(status), "rht", "inverse_rht");
}
// Renames the field of an amax error to the request's field for a value or for
// a list, which the plan does not distinguish.
absl::Status Renamed(absl::Status status, const v1::QuantizeOptions& options) {
  if (!options.given_amax().rowwise_values().empty()) {
    status =
        RenameField(status, "given_amax.rowwise", "given_amax.rowwise_values");
  }
  if (!options.given_amax().columnwise_values().empty()) {
    status = RenameField(status, "given_amax.columnwise",
                         "given_amax.columnwise_values");
  }
  return status;
}

// Fills in the server's defaults for options that a request does not set.
template <typename Options>
void Complete(const RequestDefaults&, Options*) {}
void Complete(const RequestDefaults& defaults, QuantizeOptions* options) {
  if (!options->nvfp4.amax_estimation_scale &&
      defaults.amax_estimation_scale != 0 && MayEstimate(*options)) {
    options->nvfp4.amax_estimation_scale = defaults.amax_estimation_scale;
  }
}

template <typename Options>
absl::Status ReadPlan(const typename TensorRpc<Options>::Request& message,
                      const RequestDefaults& defaults, Request* request) {
  const absl::StatusOr<TensorDesc> tensor = FromProto(message.tensor());
  if (!tensor.ok()) return tensor.status();
  absl::StatusOr<Options> options = FromProto(message.options());
  if (!options.ok()) return options.status();
  Complete(defaults, &*options);
  QUANTD_RETURN_IF_ERROR(
      Renamed(Adopt(*tensor, *options, request), message.options()));
  if constexpr (std::is_same_v<Options, QuantizeOptions>) {
    const Plan& plan = *request->plan;
    return CheckShardCut(std::get<Options>(plan.options()), plan.rows(),
                         plan.cols());
  }
  return absl::OkStatus();
}

// Finds the ranges of the inputs and outputs.
template <typename Message>
absl::Status Place(const Message& message, const Range& payload,
                   Request* request) {
  const v1::LentMemory& memory = message.memory();
  if (memory.inputs().empty()) {
    QUANTD_RETURN_IF_ERROR(Locate(message, payload, request));
  } else {
    if (payload.size != 0) {
      return PayloadSize("none with memory.inputs", payload.size);
    }
    QUANTD_RETURN_IF_ERROR(LocateElsewhere(message, request));
  }
  std::vector<bool> in_fields;
  for (const Request::Source& source : request->sources) {
    in_fields.push_back(!source.literal.empty());
  }
  return ReadLent(memory, *request->plan, in_fields, &request->lent);
}

// Parses the head as a Message and makes a request of it with `read`.
template <typename Message, typename ReadMessage>
absl::StatusOr<Request> Parse(const SeparatedMessage& separated,
                              ReadMessage read) {
  // An arena, so that many small submessages take few allocations.
  google::protobuf::Arena arena;
  auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (!message->ParseFromString(separated.head)) {
    return Malformed("a field inside it is not valid");
  }
  Request request;
  QUANTD_RETURN_IF_ERROR(read(*message, &request));
  return request;
}

}  // namespace

absl::Status PayloadSize(std::string_view expected, size_t got) {
  return FieldError("payload", expected, fmt::format("{} bytes", got));
}

absl::StatusOr<Request> ParseRequest(Method method, Slices message,
                                     const RequestDefaults& defaults) {
  if (!SpecOf(method).tensor) {
    return absl::InternalError("not the request of a tensor method");
  }
  const absl::StatusOr<SeparatedMessage> separated =
      SeparateRequest(method, message);
  if (!separated.ok()) return separated.status();
  return WithOptionsOf(method, [&](auto type) {
    using Options = typename decltype(type)::type;
    using Message = typename TensorRpc<Options>::Request;
    return Parse<Message>(
        *separated, [&](const Message& read, Request* request) -> absl::Status {
          QUANTD_RETURN_IF_ERROR(ReadPlan<Options>(read, defaults, request));
          // With all outputs in the payload, a shape that is too large is
          // reported before a payload that does not match it.
          if (read.memory().outputs().empty()) {
            QUANTD_RETURN_IF_ERROR(CheckReply(*request));
          }
          QUANTD_RETURN_IF_ERROR(Place(read, separated->payload, request));
          return CheckReply(*request);
        });
  });
}

namespace {

template <typename Options>
absl::Status ReadStart(const typename TensorRpc<Options>::Request& asked,
                       const v1::StreamRequest& start,
                       const RequestDefaults& defaults, Request* request) {
  QUANTD_RETURN_IF_ERROR(ReadPlan<Options>(asked, defaults, request));
  const v1::LentMemory& memory = asked.memory();
  if (!memory.inputs().empty() || !memory.outputs().empty() ||
      !memory.wait_event().empty() || !memory.record_event().empty()) {
    return FieldError("memory", "none in a stream", "some");
  }
  if (!asked.payload().empty()) {
    return PayloadSize("none in a stream's first message",
                       asked.payload().size());
  }
  return RenameField(Locate(asked, {0, start.payload_bytes()}, request),
                     "payload", "payload_bytes");
}

absl::Status ReadStart(const v1::StreamRequest& start,
                       const RequestDefaults& defaults, Request* request) {
  switch (start.request_case()) {
    case v1::StreamRequest::kQuantize:
      return ReadStart<QuantizeOptions>(start.quantize(), start, defaults,
                                        request);
    case v1::StreamRequest::kDequantize:
      return ReadStart<DequantizeOptions>(start.dequantize(), start, defaults,
                                          request);
    case v1::StreamRequest::kRhtAmax:
      return ReadStart<RhtAmaxOptions>(start.rht_amax(), start, defaults,
                                       request);
    case v1::StreamRequest::kApplyRht:
      return ReadStart<ApplyRhtOptions>(start.apply_rht(), start, defaults,
                                        request);
    case v1::StreamRequest::kReduceAmax:
      QUANTD_RETURN_IF_ERROR(ReadStart<QuantizeOptions>(
          start.reduce_amax(), start, defaults, request));
      return CheckReduces(*request->plan);
    case v1::StreamRequest::REQUEST_NOT_SET:
      break;
  }
  return FieldError("request",
                    "quantize, dequantize, rht_amax, apply_rht or reduce_amax "
                    "in a stream's first message",
                    "none");
}

}  // namespace

absl::StatusOr<StreamStart> ParseStreamStart(Slices message,
                                             const RequestDefaults& defaults) {
  const absl::StatusOr<SeparatedMessage> separated =
      SeparateRequest(Method::kStream, message);
  if (!separated.ok()) return separated.status();
  StreamStart out;
  auto request = Parse<v1::StreamRequest>(
      *separated,
      [&](const v1::StreamRequest& start, Request* made) -> absl::Status {
        if (separated->payload.size != 0) {
          return FieldError("chunk", "none in a stream's first message",
                            fmt::format("{} bytes", separated->payload.size));
        }
        out.payload_bytes = start.payload_bytes();
        if (start.has_reduced_amax()) {
          return FieldError("reduced_amax", "none in a stream's first message",
                            "one");
        }
        out.reduces = start.has_reduce_amax();
        return ReadStart(start, defaults, made);
      });
  if (!request.ok()) return request.status();
  out.request = *std::move(request);
  return out;
}

absl::StatusOr<std::shared_ptr<const Plan>> ParseDescribeRequest(
    Slices message, const RequestDefaults& defaults, size_t max_reply_payload) {
  const absl::StatusOr<SeparatedMessage> separated =
      SeparateRequest(Method::kQuantize, message);
  if (!separated.ok()) return separated.status();
  if (separated->payload.size + separated->head.size() - separated->list_bytes >
      kMaxHeadBytes) {
    return HeadTooLarge(kMaxHeadBytes);
  }
  absl::StatusOr<Request> request = Parse<v1::QuantizeRequest>(
      *separated, [&](const v1::QuantizeRequest& quantize, Request* made) {
        QUANTD_RETURN_IF_ERROR(
            ReadPlan<QuantizeOptions>(quantize, defaults, made));
        return CheckReply(*made, max_reply_payload);
      });
  if (!request.ok()) return request.status();
  return std::move(request->plan);
}

namespace {

template <typename Options, typename Message>
void WriteRequest(const Plan& plan, const Options& options,
                  std::optional<float> amax, Message* request) {
  *request->mutable_tensor() = TensorOf(plan);
  *request->mutable_options() = ToProto(options);
  if constexpr (std::is_same_v<Options, DequantizeOptions>) {
    if (amax) request->set_amax(*amax);
  }
}

// Checks the size of the head, counting lists as the server does.
absl::Status CheckHead(Method method, std::string_view head) {
  if (head.size() <= kMaxHeadBytes) return absl::OkStatus();
  return SeparateRequest(method, {&head, 1}).status();
}

}  // namespace

absl::StatusOr<std::string> StreamHead(const Plan& plan, size_t payload_bytes,
                                       std::optional<float> amax) {
  v1::StreamRequest start;
  std::visit(
      [&](const auto& options) {
        using Rpc = TensorRpc<std::decay_t<decltype(options)>>;
        WriteRequest(plan, options, amax, (start.*Rpc::kAsk)());
      },
      plan.options());
  start.set_payload_bytes(payload_bytes);
  std::string head = start.SerializeAsString();
  QUANTD_RETURN_IF_ERROR(CheckHead(Method::kStream, head));
  return head;
}

absl::StatusOr<std::string> ReducingHead(const Plan& plan,
                                         size_t payload_bytes) {
  v1::StreamRequest start;
  WriteRequest(plan, std::get<QuantizeOptions>(plan.options()), std::nullopt,
               start.mutable_reduce_amax());
  start.set_payload_bytes(payload_bytes);
  std::string head = start.SerializeAsString();
  QUANTD_RETURN_IF_ERROR(CheckHead(Method::kStream, head));
  return head;
}

absl::StatusOr<std::string> RequestHead(const Plan& plan, size_t payload,
                                        const LentRanges& lent,
                                        std::optional<float> amax) {
  std::string head = std::visit(
      [&](const auto& options) {
        using Options = std::decay_t<decltype(options)>;
        typename TensorRpc<Options>::Request request;
        WriteRequest(plan, options, amax, &request);
        if (lent.any()) {
          WriteLent(lent, plan, request.mutable_memory());
        }
        return request.SerializeAsString();
      },
      plan.options());
  QUANTD_RETURN_IF_ERROR(CheckHead(MethodOf(plan), head));
  if (payload > kMaxMessageBytes - head.size() - 16) {
    return FieldError("payload",
                      fmt::format("at most {} bytes in one call; split the "
                                  "tensor along its rows and give the parts "
                                  "one amax",
                                  kMaxMessageBytes),
                      fmt::format("{} bytes", payload));
  }
  if (payload > 0) AppendPayloadPrefix(payload, &head);
  return head;
}

}  // namespace quantd::wire
