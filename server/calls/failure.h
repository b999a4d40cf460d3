// Why a call fails: the one place where our errors become gRPC's.
#ifndef QUANTD_SERVER_CALLS_FAILURE_H_
#define QUANTD_SERVER_CALLS_FAILURE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "quantd.pb.h"

namespace quantd {

// What the client is told. Messages never hold paths, pointers or keys.
struct Failure {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  std::string message;
  v1::ErrorDetail detail;

  // For a `status` from parsing or planning. INVALID_ARGUMENT with the field's
  // parts if it has them, else "malformed".
  static Failure BadRequest(const absl::Status& status);
  // For a `status` of a job that will not be run again. INVALID_ARGUMENT is the
  // request's fault, RESOURCE_EXHAUSTED means busy. For any other error the
  // client learns only which device failed: the device's text is for the log.
  static Failure FromJob(const absl::Status& status, std::string_view device,
                         absl::Duration retry_delay);
  // A request of `bytes` bytes.
  static Failure TooLarge(size_t bytes, size_t limit);
  static Failure LongerThanDeclared(size_t bytes, size_t declared);
  static Failure NoMessage();
  // The causes: the gate (gate.h), a client without progress (call_watch.cc),
  // the device (FromJob), and too many calls of a connection (dispatch.cc).
  static Failure Busy(absl::Duration retry_delay);
  // The server is so busy that the deadline would pass first.
  static Failure TooLate(absl::Duration retry_delay);
  static Failure Draining();
  // No device of this server takes work, or the one in whose memory the call's
  // tensors lie takes none.
  static Failure NoDevice(absl::Duration retry_delay);
  // `what` completes "deadline exceeded ...", such as "while receiving".
  static Failure Deadline(std::string_view what);
  static Failure Cancelled();
  // A failure without ErrorDetail, of a service such as health.
  static Failure Of(grpc::StatusCode code, std::string_view message);

  // Packs the detail, if any, into grpc-status-details-bin.
  grpc::Status ToStatus() const;
};

// Whether one of the failures above has that code with that reason.
bool IsUsual(grpc::StatusCode code, v1::ErrorDetail::Reason reason);

// "INVALID_ARGUMENT" and so on, for log lines.
std::string Name(grpc::StatusCode code);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_FAILURE_H_
