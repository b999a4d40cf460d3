// Converts servers' replies to results. Replies are not trusted.
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

namespace quantd::client {

// Reads the reply to a request of `plan`. `slices` are the pieces in which the
// reply arrived. Each output is copied once, to `into` or to memory of the
// Result; outputs in `lent` memory are already in place. Returns INTERNAL if
// the reply does not match the plan, and UNIMPLEMENTED if the server does not
// know an option of the plan. If anything was lent, the result's transport is
// `by_loan`.
absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 const wire::LentRanges& lent,
                                 Transport by_loan, const Trip& trip);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_REPLIES_H_
