// A method whose request and reply are small and computed at once: health,
// server information, a plan. It may also be a stream of such requests or
// replies.
#ifndef QUANTD_SERVER_CALLS_SMALL_METHOD_H_
#define QUANTD_SERVER_CALLS_SMALL_METHOD_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "proto/methods.h"
#include "server/calls/failure.h"

namespace quantd {

class CallHandler;
class IncomingCall;
struct CallEnvironment;

struct SmallAnswer {
  std::optional<Failure> failure;
  std::string reply;  // serialized
  std::string shape;  // shape of the tensor, for the log
};

struct SmallMethod {
  // A method of another service, whose calls are not recorded.
  SmallMethod() = default;
  // A method of quantd.v1.Quantd, whose long requests are parsed apart.
  explicit SmallMethod(wire::Method ours)
      : method(ours), while_draining(false) {
    const size_t limit = wire::SpecOf(ours).max_request;
    plans_apart = limit > max_request;
    max_request = limit;
  }

  // What comes after the first reply. kNextChange: `answer` is called again
  // without the request, and a reply is sent whenever it differs.
  enum After { kEnd, kNextRequest, kNextChange };

  size_t max_request = 4096;  // bytes
  After after = kEnd;
  std::optional<wire::Method> method;
  bool plans_apart = false;    // on the planning thread
  bool while_draining = true;  // answered while the server drains
  std::function<SmallAnswer(absl::Span<const std::string_view> message,
                            std::string_view request_id)>
      answer;
};

// Returns the handler of a call of the method.
std::unique_ptr<CallHandler> MakeSmallCall(CallEnvironment* env,
                                           IncomingCall* call,
                                           SmallMethod method);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_SMALL_METHOD_H_
