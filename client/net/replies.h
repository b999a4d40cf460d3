// Converts servers' replies to results. Nothing in a reply is trusted.
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

// Reads the reply to `plan`'s request from the pieces in which it arrived.
// Parts are copied once, to `into` or to memory of the Result. INTERNAL if the
// reply does not match the plan, UNIMPLEMENTED if the server does not know one
// of its options. Tensors that were `lent` may be there already; `by_loan` is
// then the call's transport.
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
