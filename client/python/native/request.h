// What a request of the Python package asks for: read by the conversions that
// the server reads requests with, so that both refuse the same in the same
// words.
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

struct Request {
  std::shared_ptr<const Plan> plan;
  // One for each input of the plan; of DescribeQuantize none. Views of the
  // payload, and of `joined` where an input lay in several buffers.
  std::vector<Bytes> inputs;
  std::vector<AlignedBytes> joined;
};

// `header`: the message without its payload. `payload`: buffers that back to
// back are the payload; they and the header must outlive the request. Of every
// method but GetServerInfo, which asks nothing. `known`: the plan of this
// method and header, where that was read before; not of Dequantize.
absl::StatusOr<Request> ReadRequest(wire::Method method,
                                    std::string_view header,
                                    absl::Span<const Bytes> payload,
                                    std::shared_ptr<const Plan> known);

// The method of that name, "Quantize"; nullopt: there is none.
std::optional<wire::Method> MethodByName(std::string_view name);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_REQUEST_H_
