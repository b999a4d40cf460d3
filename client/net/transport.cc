#include "client/net/transport.h"

#include <utility>

#include "client/net/server_status.h"
#include "fmt/format.h"
#include "proto/methods.h"
#include "proto/net/address.h"
#include "proto/net/trace_context.h"

namespace quantd::client {
namespace {

// Smaller payloads are appended to the head: copying them is cheaper than
// tracking borrowed memory.
constexpr size_t kCopyBelow = 16 << 10;

// Waits for the next event. Polls for `busy_poll` before it blocks.
void AwaitEvent(grpc::CompletionQueue& queue,
                std::chrono::microseconds busy_poll) {
  using Clock = std::chrono::steady_clock;
  // A deadline in the past: AsyncNext does not wait.
  constexpr std::chrono::system_clock::time_point kNow;
  void* tag = nullptr;
  bool ok = false;
  if (busy_poll.count() > 0) {
    for (const auto end = Clock::now() + busy_poll; Clock::now() < end;) {
      if (queue.AsyncNext(&tag, &ok, kNow) != grpc::CompletionQueue::TIMEOUT) {
        return;
      }
    }
  }
  queue.Next(&tag, &ok);
}

}  // namespace

size_t Message::size() const {
  size_t total = head.size();
  for (const auto& piece : payload) total += piece.size();
  return total;
}

void SetUp(const CallLimit& limit, const ChannelCredentials& credentials,
           grpc::ClientContext* context) {
  context->set_deadline(limit.deadline);
  credentials.Authorize(context);
  if (!limit.traceparent.empty()) {
    context->AddMetadata(wire::kTraceparentKey, limit.traceparent);
  }
  if (limit.priority != CallPriority::kNormal) {
    context->AddMetadata(
        wire::kPriorityKey,
        limit.priority == CallPriority::kHigh ? "high" : "low");
  }
}

Sender::Sender(const Message& message, const ChannelCredentials& credentials,
               std::chrono::microseconds busy_poll)
    : message_(message),
      credentials_(credentials),
      busy_poll_(busy_poll),
      size_(message.size()),
      pins_(std::make_shared<Pins>()) {}

// The calls have ended. Only a pending write can still hold slices.
Sender::~Sender() { pins_->WaitUntilFree(); }

grpc::ByteBuffer Sender::Assemble() const {
  const size_t payload = size_ - message_.head.size();
  std::vector<grpc::Slice> slices;
  if (payload <= kCopyBelow) {
    std::string all = message_.head;
    all.reserve(size_);
    for (const auto& piece : message_.payload) {
      all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    slices.emplace_back(all);
  } else {
    slices.emplace_back(message_.head);
    for (const auto& piece : message_.payload) {
      if (!piece.empty()) slices.push_back(Pins::Borrow(piece, pins_));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::Status Sender::SendAndTell(grpc::GenericStub& stub, const OnSent& on_sent,
                                 grpc::ClientContext* context,
                                 grpc::CompletionQueue& queue,
                                 CallControl& control, ReceivedMessage* reply) {
  grpc::Status status;
  const CallControl::Stage stage(&control, [&] { context->TryCancel(); });
  // Corked metadata is sent with the message, which saves a write.
  context->set_initial_metadata_corked(true);
  const auto call = stub.PrepareCall(context, message_.method, &queue);
  int written = 0;
  call->StartCall(nullptr);
  call->Write(Assemble(), grpc::WriteOptions().set_last_message(), &written);
  call->Read(reply->buffer(), nullptr);
  call->Finish(&status, nullptr);
  // All three operations must end before the call object is destroyed.
  for (int begun = 3; begun > 0; --begun) {
    void* over = nullptr;
    bool ok = false;
    queue.Next(&over, &ok);
    if (over == &written && ok) on_sent();
  }
  return status;
}

absl::Status Sender::Send(grpc::GenericStub& stub, const CallLimit& limit,
                          const OnSent& on_sent, CallControl& control,
                          ReceivedMessage* reply) {
  grpc::ClientContext context;
  context.AddMetadata(wire::kRequestBytesKey, fmt::to_string(size_));
  SetUp(limit, credentials_, &context);
  grpc::CompletionQueue queue;
  grpc::Status status;
  if (on_sent) {
    status = SendAndTell(stub, on_sent, &context, queue, control, reply);
  } else {
    grpc::ByteBuffer request = Assemble();
    const CallControl::Stage stage(&control, [&] { context.TryCancel(); });
    const auto call =
        stub.PrepareUnaryCall(&context, message_.method, request, &queue);
    call->StartCall();
    call->Finish(reply->buffer(), &status, nullptr);
    AwaitEvent(queue, busy_poll_);
  }
  queue.Shutdown();
  for (void* tag = nullptr;;) {
    bool ok = false;
    if (!queue.Next(&tag, &ok)) break;
  }
  if (!status.ok()) return FromGrpc(status, context);
  return absl::OkStatus();
}

}  // namespace quantd::client
