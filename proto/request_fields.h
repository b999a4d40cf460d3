// Readers of what several requests have. For proto/request*.cc alone.
#ifndef QUANTD_PROTO_REQUEST_FIELDS_H_
#define QUANTD_PROTO_REQUEST_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/wire.h"

namespace quantd::wire {

#define QUANTD_RETURN_IF_ERROR(expr)                \
  do {                                              \
    if (absl::Status s = (expr); !s.ok()) return s; \
  } while (false)

absl::StatusOr<TensorDesc> ReadTensor(const v1::Tensor& message);
// `field` is where the message stands in the request.
absl::Status ReadRht(std::string_view field, const v1::Rht& message,
                     int* dimension, std::optional<SignMask>* mask);
CopyForm ReadForm(const v1::CopyForm& message);
// Of a request that has the message.
std::vector<int64_t> ReadSplits(const v1::Splits& message);
Usage ReadUsage(v1::Usage usage);

// The plan knows one name for a field that the request calls otherwise:
// `from`, or what is inside it, becomes `to`.
absl::Status RenameField(absl::Status status, std::string_view from,
                         std::string_view to);

// The plan becomes the request's, if its reply can be a message.
absl::Status Adopt(absl::StatusOr<Plan> plan, Request* request);
absl::Status PayloadSize(std::string_view expected, size_t got);
// Requests of one tensor: the payload is the tensor.
absl::Status WholePayload(const Range& payload, Request* request);

// Each message to what Parse makes of it.
absl::Status ReadPlan(const v1::QuantizeRequest& message,
                      const RequestDefaults& defaults, Request* request);
absl::Status Read(const v1::QuantizeRequest& message, const Range& payload,
                  const RequestDefaults& defaults, Request* request);
absl::Status Read(const v1::DequantizeRequest& message, const Range& payload,
                  Request* request);
absl::Status Read(const v1::RhtAmaxRequest& message, const Range& payload,
                  Request* request);
absl::Status Read(const v1::ApplyRhtRequest& message, const Range& payload,
                  Request* request);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_REQUEST_FIELDS_H_
