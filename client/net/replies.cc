#include "client/net/replies.h"

#include <utility>

#include "client/call/error_details.h"
#include "client/tensors/result_builder.h"
#include "proto/messages.h"
#include "proto/server_info.h"
#include "proto/wire.h"
#include "quantd.pb.h"

namespace quantd::client {

absl::Status NotOurMessage() {
  return absl::InternalError("the reply is not a valid quantd.v1 message");
}

namespace {

template <typename Reply>
absl::StatusOr<Reply> Parse(absl::Span<const std::string_view> slices) {
  std::string bytes;
  for (std::string_view s : slices) bytes += s;
  Reply reply;
  if (!reply.ParseFromString(bytes)) return NotOurMessage();
  return reply;
}

bool IsWhereAsked(const Plan& plan, const wire::LentRanges& lent,
                  TensorKind kind, const wire::MemoryRange& place) {
  const TensorSpec* const part = plan.output(kind);
  if (part == nullptr || lent.outputs.empty()) return false;
  const wire::MemoryRange& asked = lent.outputs[part - plan.outputs().data()];
  return asked.region == place.region && asked.offset == place.offset &&
         asked.size == place.size;
}

}  // namespace

absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 const wire::LentRanges& lent,
                                 Transport by_loan, const Trip& trip) {
  auto reply = wire::ParseReply(wire::MethodOf(plan), slices, &plan);
  if (absl::IsUnimplemented(reply.status())) {
    return Annotate(reply.status(), std::string(reply.status().message()),
                    trip.attempts);
  }
  if (!reply.ok()) return NotOurMessage();
  ResultBuilder builder(plan, into);
  for (size_t i = 0; i < reply->tensors.size(); ++i) {
    const TensorSpec& part = reply->tensors[i];
    const absl::Status added =
        !reply->lent[i] ? builder.Add(part, slices, reply->payload.offset,
                                      reply->payload.size)
        : IsWhereAsked(plan, lent, part.kind, reply->lent[i])
            ? builder.AddInPlace(part)
            : NotOurMessage();
    if (!added.ok()) return added;
  }
  const bool shared = !lent.inputs.empty() || !lent.outputs.empty();
  const auto& report = reply->report;
  return builder.Take({report.saw_nan, report.saw_inf, report.rowwise,
                       report.columnwise, std::move(reply->device),
                       std::move(reply->request_id), trip.attempts,
                       report.replaced_globals,
                       shared         ? by_loan
                       : trip.by_unix ? Transport::kUnix
                                      : Transport::kTcp});
}

absl::StatusOr<QuantizeDescription> ReadDescription(
    absl::Span<const std::string_view> slices) {
  const auto reply = Parse<v1::DescribeQuantizeReply>(slices);
  if (!reply.ok()) return reply.status();
  QuantizeDescription out;
  for (const v1::TensorRef& ref : reply->tensors()) {
    out.parts.push_back(wire::FromProto(ref));
  }
  out.input_bytes = reply->input_bytes();
  out.output_bytes = reply->output_bytes();
  out.scratch_bytes = reply->scratch_bytes();
  out.request_id = reply->request_id();
  return out;
}

absl::StatusOr<ServerInfo> ReadServerInfo(
    absl::Span<const std::string_view> slices) {
  const auto reply = Parse<v1::GetServerInfoReply>(slices);
  if (!reply.ok()) return reply.status();
  return wire::FromProto(*reply);
}

}  // namespace quantd::client
