// Between Plans and the messages of proto/quantd.proto, on the client's side.
#ifndef QUANTD_CLIENT_NET_MESSAGES_H_
#define QUANTD_CLIENT_NET_MESSAGES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call_options.h"
#include "client/result.h"
#include "client/server_info.h"
#include "kernels/plan/plan.h"

namespace quantd::client {

// The serialized request for `plan` but for the payload's bytes: its fields,
// then the tag and length of the payload. FieldError ("payload") when head
// and payload together are larger than one protobuf message can be, and
// ("options") when the head is larger than a server reads.
absl::StatusOr<std::string> RequestHead(const Plan& plan, size_t payload);

// Checks `into` against the parts the plan will give.
absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into);

// "/quantd.v1.Quantd/..." for the plan's kind of request.
const char* MethodPath(const Plan& plan);
inline constexpr char kDescribePath[] = "/quantd.v1.Quantd/DescribeQuantize";
inline constexpr char kServerInfoPath[] = "/quantd.v1.Quantd/GetServerInfo";

// The reply to `plan`'s request, in the pieces it arrived in: its parts are
// copied once, to `into` or to memory of the Result. INTERNAL for a reply
// that is not what the plan demands.
absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 int attempts);

absl::StatusOr<QuantizeDescription> ReadDescription(
    absl::Span<const std::string_view> slices);
absl::StatusOr<ServerInfo> ReadServerInfo(
    absl::Span<const std::string_view> slices);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_MESSAGES_H_
