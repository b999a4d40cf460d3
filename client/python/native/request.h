// Parses requests of the Python package with the server's code, so that both
// refuse the same requests with the same messages.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_REQUEST_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_REQUEST_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/methods.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::python {

using Bytes = absl::Span<const std::byte>;

// A parsed request.
struct Request {
  std::shared_ptr<const Plan> plan;
  // One view for each input of the plan. They refer to the payload, or to
  // `joined` if an input was in several buffers.
  std::vector<Bytes> inputs;
  std::vector<AlignedBytes> joined;
};

// Parses a request of a tensor method. `header` is the message without its
// payload. `payload` is a list of buffers that form the payload together. Both
// must outlive the request. `known` is the plan of this method and header if it
// was parsed before; Dequantize ignores it.
absl::StatusOr<Request> ReadRequest(wire::Method method,
                                    std::string_view header,
                                    absl::Span<const Bytes> payload,
                                    std::shared_ptr<const Plan> known);

// The method with the name `name`, such as "Quantize". nullopt if unknown.
std::optional<wire::Method> MethodByName(std::string_view name);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_REQUEST_H_
