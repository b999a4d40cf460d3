#include "client/transport.h"

#include <algorithm>
#include <utility>

#include "client/server_status.h"
#include "fmt/format.h"
#include "security/address.h"

namespace quantd::client {
namespace {

// Below this the payload is copied behind the head: one small slice is
// cheaper than the bookkeeping of borrowed memory.
constexpr size_t kCopyBelow = 16 << 10;

// Counts the slices over the caller's memory that gRPC still holds. It can
// hold one after the call has ended, when bytes of it lie in a write to the
// socket that has not finished.
class Pins {
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

grpc::ChannelArguments Arguments(const std::string& target,
                                 const ClientOptions& options,
                                 const ChannelCredentials& credentials) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  // Else all channels of a process to one target share one connection.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Retries are ours: gRPC's give up above 256 KiB and keep a copy below.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // Naming a keepalive time is what makes gRPC set TCP_USER_TIMEOUT, which
  // ends a write that the other side never takes. The time itself is the
  // least that a server tolerates by default.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 300'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
              static_cast<int>(options.dead_peer_timeout.count()));
  // A proxy named in the environment cannot reach this machine's loopback.
  if (security::IsLoopback(target)) args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  credentials.Configure(&args);
  args.SetUserAgentPrefix("quantd-client/" QUANTD_VERSION);
  return args;
}

grpc::ByteBuffer Assemble(const Message& message,
                          const std::shared_ptr<Pins>& pins) {
  const size_t payload = message.size() - message.head.size();
  std::vector<grpc::Slice> slices;
  if (payload <= kCopyBelow) {
    std::string all = message.head;
    all.reserve(message.size());
    for (const auto& piece : message.payload) {
      all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    slices.emplace_back(all);
  } else {
    slices.emplace_back(message.head);
    for (const auto& piece : message.payload) {
      if (!piece.empty()) slices.push_back(pins->Borrow(piece, pins));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

void CallControl::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  changed_.notify_all();
}

bool CallControl::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool CallControl::SleepUntil(Time until) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, until, [&] { return cancelled_; });
}

void CallControl::Attach(grpc::ClientContext* context) {
  std::lock_guard lock(mutex_);
  context_ = context;
  if (context != nullptr && cancelled_) context->TryCancel();
}

size_t Message::size() const {
  size_t total = head.size();
  for (const auto& piece : payload) total += piece.size();
  return total;
}

Transport::Transport(const std::string& target, const ClientOptions& options,
                     const ChannelCredentials& credentials)
    : target_(target), credentials_(credentials) {
  for (int i = 0; i < options.channels; ++i) {
    auto channel = std::make_unique<Channel>();
    channel->stub = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(target, credentials_.channel,
                                  Arguments(target, options, credentials_)));
    channels_.push_back(std::move(channel));
  }
}

Transport::Channel& Transport::Pick(size_t bytes) {
  std::lock_guard lock(pick_);
  const auto least = std::min_element(
      channels_.begin(), channels_.end(), [](const auto& a, const auto& b) {
        return a->outstanding.load() < b->outstanding.load();
      });
  (*least)->outstanding += bytes;
  return **least;
}

absl::Status Transport::Send(const Message& message, Time deadline,
                             CallControl& control,
                             std::vector<grpc::Slice>* reply) {
  const size_t size = message.size();
  const auto pins = std::make_shared<Pins>();
  absl::Status result;
  Channel& channel = Pick(size);
  {
    grpc::ByteBuffer request = Assemble(message, pins);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    context.AddMetadata("quantd-request-bytes", fmt::to_string(size));
    credentials_.Authorize(&context);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer answer;
    grpc::Status status;
    control.Attach(&context);
    {
      const auto call = channel.stub->PrepareUnaryCall(&context, message.method,
                                                       request, &queue);
      call->StartCall();
      call->Finish(&answer, &status, nullptr);
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
    }
    control.Attach(nullptr);
    queue.Shutdown();
    for (void* tag = nullptr;;) {
      bool ok = false;
      if (!queue.Next(&tag, &ok)) break;
    }
    if (status.ok()) {
      if (!answer.Dump(reply).ok()) {
        result = absl::InternalError("the reply cannot be decompressed");
      }
    } else {
      result = FromGrpc(status, context);
    }
  }
  // The request and the call are gone; what is still held is held by a write.
  // gRPC lets go of it when the write ends or the connection is given up, of
  // which it may take notice only ten seconds later (its backup poller).
  pins->WaitUntilFree();
  channel.outstanding -= size;
  return result;
}

}  // namespace quantd::client
