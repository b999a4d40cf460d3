// Serializes the client's results as messages of quantd.proto. The Python
// package then reads the replies of both engines with the same code.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_REPLY_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_REPLY_H_

#include <string>

#include "absl/status/status.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::python {

// The serialized reply without its payload. It has the plan's options and no
// request id, so that equal calls have equal replies.
std::string ReplyOf(const Plan& plan, const Result& result);

// A failed call, as arguments of quantd.errors.from_status.
struct Failure {
  int code = 0;
  std::string message;
  std::string detail;  // a serialized ErrorDetail, or empty
  std::string request_id;
  int attempts = 0;
};
Failure FailureOf(const absl::Status& status);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_REPLY_H_
