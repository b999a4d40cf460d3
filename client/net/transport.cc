#include "client/net/transport.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "client/net/server_status.h"
#include "fmt/format.h"
#include "proto/methods.h"
#include "proto/net/address.h"

namespace quantd::client {
namespace {

// Below this the payload is copied behind the head: one small slice is
// cheaper than the bookkeeping of borrowed memory.
constexpr size_t kCopyBelow = 16 << 10;

}  // namespace

// Counts the slices over the caller's memory that gRPC still holds. It can
// hold one after the call has ended, when bytes of it lie in a write to the
// socket that has not finished.
class Sender::Pins {
 public:
  grpc::Slice Borrow(absl::Span<const std::byte> bytes,
                     const std::shared_ptr<Pins>& self) {
    {
      std::lock_guard lock(mutex_);
      ++held_;
    }
    // gRPC never writes to the bytes of a slice it sends.
    void* data = const_cast<std::byte*>(bytes.data());
    return grpc::Slice(data, bytes.size(), &Pins::Release,
                       new std::shared_ptr<Pins>(self));
  }

  void WaitUntilFree() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return held_ == 0; });
  }

 private:
  static void Release(void* arg) {
    // The handle keeps the mutex alive until it is unlocked.
    const std::unique_ptr<std::shared_ptr<Pins>> handle(
        static_cast<std::shared_ptr<Pins>*>(arg));
    Pins& pins = **handle;
    std::lock_guard lock(pins.mutex_);
    if (--pins.held_ == 0) pins.free_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable free_;
  int held_ = 0;
};

size_t Message::size() const {
  size_t total = head.size();
  for (const auto& piece : payload) total += piece.size();
  return total;
}

Sender::Sender(const Message& message, const ChannelCredentials& credentials)
    : message_(message),
      credentials_(credentials),
      size_(message.size()),
      pins_(std::make_shared<Pins>()) {}

// The calls are gone; what is still held is held by a write. gRPC lets go of
// it when the write ends or the connection is given up, of which it may take
// notice only ten seconds later (its backup poller).
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
      if (!piece.empty()) slices.push_back(pins_->Borrow(piece, pins_));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status Sender::Send(grpc::GenericStub& stub, Time deadline,
                          CallControl& control, ReceivedMessage* reply) {
  grpc::ByteBuffer request = Assemble();
  grpc::ClientContext context;
  context.set_deadline(deadline);
  context.AddMetadata(wire::kRequestBytesKey, fmt::to_string(size_));
  credentials_.Authorize(&context);
  grpc::CompletionQueue queue;
  grpc::Status status;
  {
    const CallControl::Stage stage(&control, [&] { context.TryCancel(); });
    const auto call =
        stub.PrepareUnaryCall(&context, message_.method, request, &queue);
    call->StartCall();
    call->Finish(reply->buffer(), &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
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
