// Sends one call once: raw bytes out, raw bytes in, over a pool of channels.
// The only file of the client, with server_status, that speaks gRPC.
#ifndef QUANTD_CLIENT_TRANSPORT_H_
#define QUANTD_CLIENT_TRANSPORT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/channel_credentials.h"
#include "client/client.h"

namespace quantd::client {

using Time = std::chrono::system_clock::time_point;

// Stops one call, whatever stage it is in. Thread-safe.
class CallControl {
 public:
  void Cancel();
  bool cancelled() const;
  // False when the call was cancelled before `until`.
  bool SleepUntil(Time until);

 private:
  friend class Transport;
  // The attempt under way; nullptr when there is none.
  void Attach(grpc::ClientContext* context);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  grpc::ClientContext* context_ = nullptr;
};

// One request: `head` and then the pieces of the payload, which are the
// caller's memory, make the serialized message.
struct Message {
  const char* method = nullptr;  // "/quantd.v1.Quantd/Quantize"
  std::string head;
  std::vector<absl::Span<const std::byte>> payload;

  size_t size() const;
};

// Thread-safe.
class Transport {
 public:
  Transport(const std::string& target, const ClientOptions& options,
            const ChannelCredentials& credentials);

  // Waits for the end of the call and until gRPC holds no piece of the
  // payload any more. `reply` is the message in the pieces it came in.
  absl::Status Send(const Message& message, Time deadline, CallControl& control,
                    std::vector<grpc::Slice>* reply);

  const std::string& target() const { return target_; }

 private:
  struct Channel {
    std::unique_ptr<grpc::GenericStub> stub;
    std::atomic<size_t> outstanding{0};  // bytes of requests under way
  };
  // Takes the channel with the fewest outstanding bytes; the caller gives
  // `bytes` back.
  Channel& Pick(size_t bytes);

  const std::string target_;
  const ChannelCredentials credentials_;
  std::mutex pick_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TRANSPORT_H_
