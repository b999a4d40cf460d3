// From a message to a Plan and the places of its input bytes.
#include <utility>

#include "google/protobuf/arena.h"
#include "kernels/plan/field_error.h"
#include "proto/request_fields.h"

namespace quantd::wire {

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
  if (message.has_rht() && !options.rowwise_rht && !options.columnwise_rht) {
    return FieldError("rht", "rowwise_rht or columnwise_rht beside it",
                      "neither");
  }
  options.non_finite = static_cast<NonFinite>(message.non_finite());
  options.domain = static_cast<AmaxDomain>(message.domain());
  if (message.has_splits()) options.splits = ReadSplits(message.splits());
  options.partial_splits = message.splits().partial();
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

namespace {

// The request that `read` makes of the head as a Message.
template <typename Message, typename ReadMessage>
absl::StatusOr<Request> Parse(const Split& split, ReadMessage read) {
  // An arena, so that many small sub-messages cost few allocations.
  google::protobuf::Arena arena;
  auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (!message->ParseFromString(split.head)) {
    return Malformed("a field inside it is not valid");
  }
  Request request;
  QUANTD_RETURN_IF_ERROR(read(*message, &request));
  return request;
}

template <typename Message>
absl::StatusOr<Request> Parse(const Split& split) {
  return Parse<Message>(split, [&](const Message& message, Request* request) {
    return Read(message, split.payload, request);
  });
}

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

absl::StatusOr<Request> ParseRequest(Method method, Slices message,
                                     const RequestDefaults& defaults) {
  absl::StatusOr<Split> split = SplitRequest(method, message);
  if (!split.ok()) return split.status();
  switch (method) {
    case Method::kQuantize:
      return Parse<v1::QuantizeRequest>(
          *split, [&](const v1::QuantizeRequest& quantize, Request* request) {
            return Read(quantize, split->payload, defaults, request);
          });
    case Method::kDequantize:
      return Parse<v1::DequantizeRequest>(*split);
    case Method::kRhtAmax:
      return Parse<v1::RhtAmaxRequest>(*split);
    case Method::kApplyRht:
      return Parse<v1::ApplyRhtRequest>(*split);
  }
  return absl::InternalError("no such method");
}

absl::StatusOr<std::shared_ptr<const Plan>> ParseDescribeRequest(
    Slices message, const RequestDefaults& defaults) {
  absl::StatusOr<Split> split = SplitRequest(Method::kQuantize, message);
  if (!split.ok()) return split.status();
  if (split->payload.size + split->head.size() - split->list_bytes >
      kMaxHeadBytes) {
    return HeadTooLarge(kMaxHeadBytes);
  }
  absl::StatusOr<Request> request = Parse<v1::QuantizeRequest>(
      *split, [&](const v1::QuantizeRequest& quantize, Request* made) {
        return ReadPlan(quantize, defaults, made);
      });
  if (!request.ok()) return request.status();
  return std::move(request->plan);
}

}  // namespace quantd::wire
