#include "client/net/replies.h"

#include <utility>

#include "client/call/error_details.h"
#include "client/tensors/result_builder.h"
#include "proto/wire.h"

namespace quantd::client {

namespace {

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

}  // namespace quantd::client
