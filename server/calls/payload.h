// The payload of a call, in one message or in chunks (rpc Stream): how it
// arrives, and what a device does with it. Everything else about calls is in
// call.h.
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

// Outputs up to this size are copied into the reply; lending the block costs
// more.
inline constexpr size_t kCopiedOutput = 16 << 10;

// The payload of a reply.
struct JobOutput {
  Block block;                  // the output begins here
  std::vector<std::byte> rest;  // or here, if at most kCopiedOutput
  size_t size = 0;

  const std::byte* data() const {
    return rest.empty() ? block.data() : rest.data();
  }
};

// Not thread-safe. The payload's job must be destroyed before the lease of its
// memory.
class Payload {
 public:
  // The call's next step.
  enum class Next {
    kReceive,  // read another message
    kCompute,  // compute on the device with what is here
    kTell,     // write told(), then read another message
    kReply,    // take the output
  };
  // Bytes to reserve for the next message: `first` at once, up to `most` as
  // more comes. Both are zero for a small message that needs no reservation.
  struct Expected {
    size_t first = 0;
    size_t most = 0;
  };

  virtual ~Payload() = default;

  // Parses the first message, which holds the request (and, unless streamed,
  // everything). Errors as from ParseRequest.
  virtual absl::Status Parse(wire::Slices message) = 0;
  const wire::Request& request() const { return request_; }
  // Memory that the client lends for the tensors.
  const Places& places() const { return places_; }
  // Payload bytes that follow the request.
  uint64_t bytes_to_come() const { return bytes_to_come_; }
  // Bytes that the device needs.
  virtual size_t Need() const = 0;

  // Begins the job: takes the message in, or makes room for what will come.
  // `pieces` is passed to Job::CountPieces. Errors are the backend's, as for
  // Compute.
  virtual absl::StatusOr<Next> Begin(Backend& backend, wire::Slices message,
                                     std::atomic<uint64_t>* pieces) = 0;
  virtual bool has_job() const = 0;
  virtual void DropJob() = 0;
  virtual Expected NextMessage() const { return {}; }
  // Take a message after the first, or the end of messages. Return FieldErrors.
  virtual absl::StatusOr<Next> Take(wire::Slices) {
    return absl::InternalError("no message follows the request");
  }
  virtual absl::StatusOr<Next> TakeEnd() { return Take({}); }
  virtual absl::StatusOr<Next> Compute() = 0;
  const std::string& told() const { return told_; }
  // Whether the client must answer what it was told.
  virtual bool AwaitsAnswer() const { return false; }

  // The parts of the reply: its head without the output, and then the output,
  // which ends the job.
  const JobReport& report() const { return report_; }
  virtual std::string ReplyHead(std::string_view device,
                                std::string_view id) const = 0;
  virtual JobOutput Finish() = 0;

 protected:
  // Runs the job and keeps its report. The next step is the reply.
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
