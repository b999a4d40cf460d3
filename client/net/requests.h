// What a client asks a server for, as the messages that it sends.
#ifndef QUANTD_CLIENT_NET_REQUESTS_H_
#define QUANTD_CLIENT_NET_REQUESTS_H_

#include "absl/status/statusor.h"
#include "client/memory/lending.h"
#include "client/net/transport.h"
#include "kernels/plan/plan.h"

namespace quantd::client {

// The call that computes `plan`. What travels stays the caller's. FieldError
// ("payload") where it is more than one message can hold, and ("message") where
// all else is more than a server reads.
absl::StatusOr<Message> RequestOf(const Plan& plan, const Lending& lending);

// The call that tells what the plan of a Quantize gives.
absl::StatusOr<Message> DescribeRequestOf(const Plan& plan);

Message ServerInfoRequest();

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_REQUESTS_H_
