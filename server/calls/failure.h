// Why a call fails, and the one bridge from our errors to gRPC's.
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

// What the client is told. Texts carry no paths, pointers or keys.
struct Failure {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  std::string message;
  v1::ErrorDetail detail;

  // `status` came from the wire or the plan: INVALID_ARGUMENT with the field's
  // parts when it has them, else "malformed".
  static Failure BadRequest(const absl::Status& status);
  // `status` came from a job, and no other device shall try. INVALID_ARGUMENT
  // is the request's fault, RESOURCE_EXHAUSTED means busy; of anything else the
  // client learns only which device failed, since a device's text is for the
  // log.
  static Failure FromJob(const absl::Status& status, std::string_view device,
                         absl::Duration retry_delay);
  // `what` is what has so many bytes: "request".
  static Failure TooLarge(std::string_view what, size_t bytes, size_t limit);
  static Failure LongerThanDeclared(size_t bytes, size_t declared);
  static Failure NoMessage();
  static Failure Busy(absl::Duration retry_delay);
  // So busy that the deadline would be over first.
  static Failure TooLate(absl::Duration retry_delay);
  // `what` the caller's token grants no more of: "calls in flight".
  static Failure OverQuota(std::string_view what, absl::Duration retry_delay);
  static Failure Draining();
  // No device takes the work; none of this server, or not the one whose memory
  // the call lends.
  static Failure NoDevice(absl::Duration retry_delay);
  // `what` completes "deadline exceeded ...", such as "while receiving".
  static Failure Deadline(std::string_view what);
  static Failure Cancelled();
  // A failure of a service that has no ErrorDetail, such as health.
  static Failure Of(grpc::StatusCode code, std::string_view message);

  // With the detail, if there is one, packed into grpc-status-details-bin.
  grpc::Status ToStatus() const;
};

// Whether failures above have that code with that reason.
bool IsUsual(grpc::StatusCode code, v1::ErrorDetail::Reason reason);

// "INVALID_ARGUMENT" and so on, for log lines.
std::string Name(grpc::StatusCode code);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_FAILURE_H_
