// Turns a request into a plan and the ranges of its inputs. For
// proto/request*.cc only.
#ifndef QUANTD_PROTO_REQUEST_PLAN_H_
#define QUANTD_PROTO_REQUEST_PLAN_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages.h"
#include "proto/wire.h"

namespace quantd::wire {

absl::Status PayloadSize(std::string_view expected, size_t got);

// Finds the plan's inputs in the payload. For all methods but Dequantize the
// payload is the tensor.
template <typename Message>
absl::Status Locate(const Message&, const Range& payload, Request* request) {
  const size_t expected = request->plan->input_bytes();
  if (payload.size != expected) {
    return PayloadSize(std::to_string(expected) + " bytes", payload.size);
  }
  request->sources = {{payload, ""}};
  return absl::OkStatus();
}
absl::Status Locate(const v1::DequantizeRequest& message, const Range& payload,
                    Request* request);

// Sets the inputs of a request whose payload is empty because all of them lie
// in shared memory.
template <typename Message>
absl::Status LocateElsewhere(const Message&, Request* request) {
  request->sources.resize(request->plan->inputs().size());
  return absl::OkStatus();
}
absl::Status LocateElsewhere(const v1::DequantizeRequest& message,
                             Request* request);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_REQUEST_PLAN_H_
