// What a server answers, made into results. Nothing in it is trusted.
#ifndef QUANTD_CLIENT_NET_REPLIES_H_
#define QUANTD_CLIENT_NET_REPLIES_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/net/exchange.h"
#include "proto/memory/ranges.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"
#include "quantd/server_info.h"

namespace quantd::client {

// INTERNAL: the reply is not one of this service.
absl::Status NotOurMessage();

// The reply to `plan`'s request, in the pieces it arrived in: its parts are
// copied once, to `into` or to memory of the Result. INTERNAL for a reply
// that is not what the plan demands, UNIMPLEMENTED for one of a server that
// does not know an option of it. What was `lent` may lie there already, and
// then `by_loan` is the way that the call took.
absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 const wire::LentRanges& lent,
                                 Transport by_loan, const Trip& trip);

absl::StatusOr<QuantizeDescription> ReadDescription(
    absl::Span<const std::string_view> slices);
absl::StatusOr<ServerInfo> ReadServerInfo(
    absl::Span<const std::string_view> slices);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_REPLIES_H_
