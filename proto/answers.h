// The methods without a payload: how a server, or a client with devices in its
// own process, answers them, and what a client reads from the replies.
#ifndef QUANTD_PROTO_ANSWERS_H_
#define QUANTD_PROTO_ANSWERS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "proto/methods.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "quantd/server_info.h"

namespace quantd::wire {

// What the answers depend on, besides the requests.
struct Facts {
  RequestDefaults defaults;
  // The largest payload that a reply may have.
  size_t max_reply_payload = kMaxReplyPayloadBytes;
  // The reply of GetServerInfo.
  std::function<v1::GetServerInfoReply()> info;
};

struct Answer {
  std::string reply;  // serialized
  std::string shape;  // of the request's tensor, for the log; may be empty
};

// Answers a request of `method`, which must be a method without a payload.
// Malformed or FieldError.
absl::StatusOr<Answer> AnswerRequest(Method method, Slices request,
                                     const Facts& facts,
                                     std::string_view request_id);

struct DeviceState {
  const BackendInfo& info;
  BackendStats stats;
  bool healthy = false;
};

// Describes devices and formats. The caller sets version and limits.
v1::GetServerInfoReply DescribeDevices(const std::vector<DeviceState>& devices);

// Unknown enum numbers of formats and dtypes become unspecified; those of
// usages are kept.
ServerInfo FromProto(const v1::GetServerInfoReply& reply);

QuantizeDescription FromProto(const v1::DescribeQuantizeReply& reply);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_ANSWERS_H_
