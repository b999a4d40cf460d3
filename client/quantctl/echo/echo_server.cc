#include "client/quantctl/echo/echo_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "proto/net/address.h"
#include "proto/net/received_message.h"

namespace quantd::quantctl {
namespace {

constexpr uint64_t kMostBytes = 1 << 30;
constexpr int kCallsOfAThread = 8;
constexpr auto kLongestCall = std::chrono::minutes(10);

// What all calls of a server share.
struct Shared {
  grpc::AsyncGenericService service;
  uint64_t max_bytes = 0;
  std::atomic<bool> stopping = false;
  std::mutex mutex;
  std::condition_variable none;
  int calls = 0;  // that an event may still come for
};

// One call after the other, on one queue and by its thread. The next message is
// read while the answer to the last is on its way.
class Call {
 public:
  // What an event is about.
  struct Event {
    Call* call;
    void (Call::*then)(bool);
  };

  Call(Shared* shared, grpc::ServerCompletionQueue* queue)
      : shared_(*shared), queue_(queue) {
    {
      const std::lock_guard lock(shared_.mutex);
      ++shared_.calls;
    }
    Arm();
  }

 private:
  void Arm() {
    stream_.reset();
    context_.emplace();
    stream_.emplace(&*context_);
    message_.Clear();
    messages_ = 1;
    came_ = 0;
    reading_ = writing_ = false;
    failure_ = grpc::Status::OK;
    shared_.service.RequestCall(&*context_, &*stream_, queue_, queue_, &begun_);
  }

  // No event comes for it any more; the queue may end when none has one.
  void Retire() {
    const std::lock_guard lock(shared_.mutex);
    if (--shared_.calls == 0) shared_.none.notify_all();
  }

  static grpc::Status Refused(grpc::StatusCode code, const std::string& why) {
    return {code, "echo: " + why};
  }

  // Judged before a byte of a message is taken.
  grpc::Status Judge() {
    if (context_->method() != kEchoMethod) {
      return Refused(grpc::UNIMPLEMENTED,
                     fmt::format("expected {}, got {}; this is no quantd",
                                 kEchoMethod, context_->method()));
    }
    if (context_->deadline() >
        std::chrono::system_clock::now() + kLongestCall) {
      return Refused(grpc::INVALID_ARGUMENT,
                     "expected a deadline of at most ten minutes");
    }
    if (context_->client_metadata().count(kEchoMessages) != 0 &&
        (!Number(kEchoMessages, &messages_) || messages_ == 0 ||
         messages_ > kMostEchoMessages)) {
      return Refused(grpc::INVALID_ARGUMENT,
                     fmt::format("expected {} with a number from 1 to {}",
                                 kEchoMessages, kMostEchoMessages));
    }
    if (!Number(kEchoReplyBytes, &reply_bytes_) ||
        reply_bytes_ / messages_ >= shared_.max_bytes + (messages_ == 1)) {
      return Refused(
          grpc::INVALID_ARGUMENT,
          fmt::format("expected {} with a number up to {} for each message, "
                      "which quantctl echo-server --max-bytes sets",
                      kEchoReplyBytes, shared_.max_bytes));
    }
    return grpc::Status::OK;
  }

  bool Number(const char* key, uint64_t* number) const {
    const auto& metadata = context_->client_metadata();
    const auto found = metadata.find(key);
    return found != metadata.end() &&
           absl::SimpleAtoi(
               absl::string_view(found->second.data(), found->second.size()),
               number);
  }

  void Begun(bool ok) {
    if (shared_.stopping || !ok) return Retire();
    failure_ = Judge();
    Go();
  }

  void Read(bool ok) {
    reading_ = false;
    if (!ok) {
      failure_ = Refused(
          grpc::INVALID_ARGUMENT,
          fmt::format("expected {} message{} of at most {} bytes, got {}",
                      messages_ == 1 ? "one" : std::to_string(messages_),
                      messages_ == 1 ? "" : "s", shared_.max_bytes,
                      came_ == 0 ? "none" : std::to_string(came_)));
    }
    Go();
  }

  void Written(bool ok) {
    writing_ = false;
    if (!ok) failure_ = Refused(grpc::CANCELLED, "the caller has gone");
    Go();
  }

  void Ended(bool) { shared_.stopping ? Retire() : Arm(); }

  // Does what there is to do next; when nothing is under way that does it.
  void Go() {
    const bool stop = shared_.stopping || !failure_.ok();
    if (!stop && !reading_ && !writing_ && message_.buffer()->Valid()) {
      if (Answer()) return;
    }
    if (!stop && !reading_ && !message_.buffer()->Valid() &&
        came_ < messages_) {
      reading_ = true;
      stream_->Read(message_.buffer(), &read_);
    }
    if (reading_ || writing_) return;
    if (shared_.stopping) return Retire();
    stream_->Finish(failure_, &ended_);
  }

  // The share of the message that came. True: with it the call ends.
  bool Answer() {
    const uint64_t begin = ShareOf(reply_bytes_, came_, messages_);
    const uint64_t reply = ShareOf(reply_bytes_, ++came_, messages_) - begin;
    const size_t size = message_.size();
    Staging& staging = staging_[came_ % 2];
    const size_t room = std::max<size_t>(size, reply);
    // gRPC may hold the last reply for longer than its call.
    if (room > staging.room || staging.bytes.use_count() != 1) {
      staging.bytes.reset(new std::byte[room]);
      staging.room = room;
    }
    std::byte* to = staging.bytes.get();
    for (const std::string_view piece : message_.Pieces()) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    }
    message_.Clear();
    // Another caller's bytes are none of this one's.
    if (reply > size) std::memset(to, 0, reply - size);
    auto* const owner = new std::shared_ptr<std::byte[]>(staging.bytes);
    grpc::Slice slice(
        staging.bytes.get(), reply,
        [](void* p) { delete static_cast<std::shared_ptr<std::byte[]>*>(p); },
        owner);
    const grpc::ByteBuffer answer(&slice, 1);
    if (came_ == messages_) {
      stream_->WriteAndFinish(answer, {}, grpc::Status::OK, &ended_);
      return true;
    }
    writing_ = true;
    stream_->Write(answer, &written_);
    return false;
  }

  struct Staging {
    std::shared_ptr<std::byte[]> bytes;
    size_t room = 0;
  };

  Event begun_{this, &Call::Begun};
  Event read_{this, &Call::Read};
  Event written_{this, &Call::Written};
  Event ended_{this, &Call::Ended};
  Shared& shared_;
  grpc::ServerCompletionQueue* const queue_;
  std::optional<grpc::GenericServerContext> context_;
  std::optional<grpc::GenericServerAsyncReaderWriter> stream_;
  ReceivedMessage message_;
  uint64_t reply_bytes_ = 0;
  uint64_t messages_ = 1;
  uint64_t came_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  grpc::Status failure_;
  Staging staging_[2];
};

void Drain(grpc::ServerCompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    const auto* const event = static_cast<Call::Event*>(tag);
    (event->call->*event->then)(ok);
  }
}

// gRPC would take over a socket that is another server's.
absl::Status CheckPath(const std::string& listen) {
  constexpr char kUnix[] = "unix:";
  if (!listen.starts_with(kUnix)) return {};
  const std::string path = listen.substr(sizeof kUnix - 1);
  struct stat there = {};
  if (lstat(path.c_str(), &there) != 0) return {};
  return absl::InvalidArgumentError(fmt::format(
      "--listen {}: there is a file; remove it if no server uses it, or name "
      "another",
      listen));
}

class RunningEcho : public EchoServer {
 public:
  ~RunningEcho() override {
    shared_.stopping = true;
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
      std::unique_lock lock(shared_.mutex);
      shared_.none.wait(lock, [this] { return shared_.calls == 0; });
    }
    for (const auto& queue : queues_) queue->Shutdown();
    for (std::thread& thread : threads_) thread.join();
    // Where it never started, nobody has emptied them.
    for (const auto& queue : queues_) Drain(queue.get());
  }

  absl::Status Listen(const EchoOptions& options) {
    shared_.max_bytes = options.max_bytes;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                             &port);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_bytes));
    builder.SetMaxSendMessageSize(-1);
    // Else two servers share a port, and calls go to either.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
    // As quantd has them: larger frames cost less.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.RegisterAsyncGenericService(&shared_.service);
    const int threads = options.threads > 0
                            ? options.threads
                            : static_cast<int>(std::max(
                                  1u, std::thread::hardware_concurrency() / 4));
    for (int i = 0; i < threads; ++i) {
      queues_.push_back(builder.AddCompletionQueue());
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          fmt::format("cannot listen on {}: stop what listens there, or choose "
                      "another with --listen",
                      options.listen));
    }
    address_ = options.listen;
    if (!address_.starts_with("unix")) {
      address_.erase(address_.rfind(':') + 1);
      address_ += std::to_string(port);
    }
    for (int i = 0; i < kCallsOfAThread; ++i) {
      for (const auto& queue : queues_) {
        calls_.push_back(std::make_unique<Call>(&shared_, queue.get()));
      }
    }
    for (const auto& queue : queues_) {
      threads_.emplace_back(Drain, queue.get());
    }
    return {};
  }

  const std::string& address() const override { return address_; }
  int calls() const override { return static_cast<int>(calls_.size()); }

 private:
  Shared shared_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<std::thread> threads_;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EchoServer>> EchoServer::Start(
    const EchoOptions& options) {
  if (auto s = security::CheckListenAddress("--listen", options.listen);
      !s.ok()) {
    return s;
  }
  if (auto s = CheckPath(options.listen); !s.ok()) return s;
  if (options.max_bytes == 0 || options.max_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("--max-bytes: expected 1 to {}, got {}", kMostBytes,
                    options.max_bytes));
  }
  auto server = std::make_unique<RunningEcho>();
  if (auto s = server->Listen(options); !s.ok()) return s;
  return server;
}

}  // namespace quantd::quantctl
