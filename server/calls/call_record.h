// Record of a call that is over, from which its log line and metrics are made.
#ifndef QUANTD_SERVER_CALLS_CALL_RECORD_H_
#define QUANTD_SERVER_CALLS_CALL_RECORD_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "kernels/device/backend.h"
#include "proto/methods.h"
#include "proto/net/trace_context.h"
#include "quantd.pb.h"
#include "server/calls/failure.h"

namespace quantd {

// Stages of a tensor call's time, in order. Copies and kernels are timed by the
// device (JobTimes), all others by the server's clock.
enum class CallStage {
  kWait,     // for memory
  kReceive,  // until the whole message is here
  kQueue,    // for its plan, then for a slot of the device
  kGather,   // from the network's slices into staging
  kCopyIn,
  kKernel,
  kCopyOut,
  kSend,  // until gRPC has written the reply
};
inline constexpr std::string_view kCallStages[] = {  // by CallStage
    "wait",    "receive", "queue",    "gather",
    "copy_in", "kernel",  "copy_out", "send"};

// Makes call ids, which appear in every reply, trailer and log line of a call.
// Thread-safe.
class RequestIds {
 public:
  std::string Next() {
    return fmt::format("{}-{:06x}", prefix_, next_.fetch_add(1));
  }

 private:
  // Random, so that ids differ between runs and servers.
  const std::string prefix_ = fmt::format("{:08x}", std::random_device()());
  std::atomic<uint64_t> next_ = 0;
};

struct CallRecord {
  using Clock = std::chrono::steady_clock;

  wire::Method method = wire::Method::kQuantize;
  std::string id;
  std::optional<wire::TraceContext> trace;  // named by the caller
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  v1::ErrorDetail::Reason reason = v1::ErrorDetail::REASON_UNSPECIFIED;
  std::string error;  // may hold more detail than the client is told
  std::string device;
  bool streamed = false;  // it came by rpc Stream
  size_t request_bytes = 0;
  size_t reply_bytes = 0;
  // Bytes read and written in shared memory. Counted for OK replies only.
  size_t shared_input_bytes = 0;
  size_t shared_output_bytes = 0;
  JobTimes device_times;

  // When each step was over; the epoch if it was not reached.
  Clock::time_point arrived;
  Clock::time_point admitted;
  Clock::time_point received;
  Clock::time_point started;
  Clock::time_point gathered;
  Clock::time_point computed;
  Clock::time_point answered;  // the reply was given to gRPC
  Clock::time_point sent;
  Clock::time_point ended;  // the call is destroyed

  void Fail(const Failure& failure) {
    code = failure.code;
    reason = failure.detail.reason();
  }
  // Nanoseconds. nullopt if the call did not finish that stage or the device
  // has no such stage.
  std::optional<int64_t> Duration(CallStage stage) const;
  int64_t Total() const { return (ended - arrived).count(); }
};

// Whether the record would be logged: at level debug, or higher for an error.
bool WouldLog(const CallRecord& record);
// `shape` is the tensor's, such as "4096x4096", or empty; `caller` is an
// identity, or empty.
void LogCall(const CallRecord& record, std::string_view peer,
             std::string_view caller, std::string_view shape);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_RECORD_H_
