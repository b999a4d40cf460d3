// The payload of a call: how it comes, and what a device does with it. In one
// message, or in chunks (rpc Stream); in all else calls are the same (call.h).
#ifndef QUANTD_SERVER_CALLS_PAYLOAD_H_
#define QUANTD_SERVER_CALLS_PAYLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/backend.h"
#include "proto/wire.h"
#include "server/memory/places.h"

namespace quantd {

struct CallEnvironment;

// Up to here a copy of an output costs less than lending its block does.
inline constexpr size_t kCopiedOutput = 16 << 10;

// A reply's payload.
struct JobOutput {
  Block block;                  // it begins here
  std::vector<std::byte> rest;  // or is this, of at most kCopiedOutput
  size_t size = 0;

  const std::byte* data() const {
    return rest.empty() ? block.data() : rest.data();
  }
};

// Not thread-safe. Its job must be gone before the lease of its memory is.
class Payload {
 public:
  // What the call does next.
  enum class Next {
    kReceive,  // reads another message
    kCompute,  // has the device work on what is here
    kTell,     // writes told(), then reads another message
    kReply,    // takes the output
  };
  // Bytes to reserve for the next message: `first` until more has come, `most`
  // as the upper limit. Both zero: a small message that needs none.
  struct Expected {
    size_t first = 0;
    size_t most = 0;
  };

  virtual ~Payload() = default;

  // Understands the request, which is the first message, or all of it. Errors
  // as from ParseRequest.
  virtual absl::Status Parse(wire::Slices message) = 0;
  const wire::Request& request() const { return request_; }
  // Memory that the client lends.
  const Places& places() const { return places_; }
  // Bytes that come after the request.
  uint64_t bytes_to_come() const { return bytes_to_come_; }
  // Bytes that a device needs for it.
  virtual size_t Need() const = 0;

  // The job begins: the message is taken in, or room made for what comes.
  // `pieces` is for Job::CountPieces. The errors are the backend's, as those of
  // Compute.
  virtual absl::StatusOr<Next> Begin(Backend& backend, wire::Slices message,
                                     std::atomic<uint64_t>* pieces) = 0;
  virtual bool has_job() const = 0;
  virtual void DropJob() = 0;
  virtual Expected NextMessage() const { return {}; }
  // Take a message after the first, or the end of them. FieldErrors.
  virtual absl::StatusOr<Next> Take(wire::Slices) {
    return absl::InternalError("no message follows the request");
  }
  virtual absl::StatusOr<Next> TakeEnd() { return Take({}); }
  virtual absl::StatusOr<Next> Compute() = 0;
  const std::string& told() const { return told_; }
  // Whether the client is to answer what it was told.
  virtual bool AwaitsAnswer() const { return false; }

  // The reply without its output; then the output, with which the job ends.
  const JobReport& report() const { return report_; }
  virtual std::string ReplyHead(std::string_view device,
                                std::string_view id) const = 0;
  virtual JobOutput Finish() = 0;

 protected:
  // Runs the job, after which there is a report and the reply is next.
  absl::StatusOr<Next> RunToReply(Job& job) {
    auto report = job.Run();
    if (!report.ok()) return report.status();
    report_ = *std::move(report);
    return Next::kReply;
  }

  wire::Request request_;
  Places places_;  // of the request
  uint64_t bytes_to_come_ = 0;
  std::string told_;
  JobReport report_;
};

std::unique_ptr<Payload> MakePayload(const CallEnvironment* env,
                                     wire::Method method);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_PAYLOAD_H_
