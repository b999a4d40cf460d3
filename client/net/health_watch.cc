#include "client/net/health_watch.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "proto/net/received_message.h"

namespace quantd::client {
namespace {

using std::chrono::milliseconds;

constexpr char kMethod[] = "/grpc.health.v1.Health/Watch";
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{500};
// Pause between checks of a server that has no health service.
constexpr milliseconds kNoServicePause{2000};

// Parses HealthCheckResponse {ServingStatus status = 1}. Status 2 is
// NOT_SERVING. A message that cannot be parsed counts as serving, since the
// server answers.
bool SaysNotServing(ReceivedMessage& message) {
  std::string bytes;
  for (const std::string_view piece : message.Pieces()) bytes += piece;
  return bytes == "\x08\x02";
}

}  // namespace

// Watches one server. It always has one event pending in the queue, and is
// deleted when Proceed returns false.
class HealthWatcher::Watch {
 public:
  Watch(grpc::CompletionQueue* queue, std::shared_ptr<grpc::Channel> channel,
        Report report)
      : queue_(queue),
        channel_(std::move(channel)),
        stub_(channel_),
        report_(std::move(report)) {}

  void Begin() {
    std::lock_guard lock(mutex_);
    spoke_ = false;
    // The old call lies in memory of the old context, so it goes first.
    call_.reset();
    context_ = std::make_unique<grpc::ClientContext>();
    if (stopped_) context_->TryCancel();
    call_ = stub_.PrepareCall(context_.get(), kMethod, queue_);
    step_ = Step::kStarting;
    call_->StartCall(this);
  }

  void Hurry() {
    grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
    std::lock_guard lock(mutex_);
    pause_.Cancel();
  }

  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    if (context_ != nullptr) context_->TryCancel();
    pause_.Cancel();
  }

  // Handles the pending event. Returns false if no event follows.
  bool Proceed(bool ok) {
    const bool over = stopped();
    switch (step_) {
      case Step::kStarting:
        if (!ok) return Finish();
        step_ = Step::kAsking;
        // An empty HealthCheckRequest asks for the health of the whole server.
        call_->Write(grpc::ByteBuffer(nullptr, 0),
                     grpc::WriteOptions().set_last_message(), this);
        return true;
      case Step::kAsking:
        if (!ok) return Finish();
        return Read();
      case Step::kReading:
        if (!ok) return Finish();
        spoke_ = true;
        pause_length_ = kFirstPause;
        if (SaysNotServing(reply_)) {
          report_(Health::kDraining, "it is draining");
        } else {
          report_(Health::kServing, "");
        }
        return Read();
      case Step::kEnding:
        return !over && Pause();
      case Step::kPausing:
        break;
    }
    if (over) return false;
    Begin();
    return true;
  }

 private:
  enum class Step { kStarting, kAsking, kReading, kEnding, kPausing };

  bool stopped() const {
    std::lock_guard lock(mutex_);
    return stopped_;
  }

  bool Read() {
    step_ = Step::kReading;
    reply_.Clear();
    call_->Read(reply_.buffer(), this);
    return true;
  }

  bool Finish() {
    step_ = Step::kEnding;
    call_->Finish(&status_, this);
    return true;
  }

  bool Pause() {
    milliseconds length = pause_length_;
    if (spoke_) {
      // The reason is unknown here. The next attempt shows it.
      report_(Health::kUnknown, "the connection was lost");
    } else if (status_.error_code() == grpc::StatusCode::UNAVAILABLE ||
               status_.error_code() == grpc::StatusCode::CANCELLED) {
      report_(Health::kDown, status_.error_message());
      pause_length_ = std::min(pause_length_ * 2, kLongestPause);
    } else {
      report_(Health::kServing, "");
      length = kNoServicePause;
    }
    step_ = Step::kPausing;
    std::lock_guard lock(mutex_);
    // Stop may have come before the alarm was set, and could not cancel it
    // then.
    if (stopped_) length = milliseconds(0);
    pause_.Set(queue_, std::chrono::system_clock::now() + length, this);
    return true;
  }

  grpc::CompletionQueue* const queue_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  const Report report_;
  Step step_ = Step::kStarting;
  bool spoke_ = false;
  milliseconds pause_length_ = kFirstPause;
  ReceivedMessage reply_;
  grpc::Status status_;

  mutable std::mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::Alarm pause_;
  bool stopped_ = false;
};

HealthWatcher::HealthWatcher() : thread_([this] { Run(); }) {}

HealthWatcher::~HealthWatcher() {
  {
    std::lock_guard lock(mutex_);
    for (Watch* watch : watches_) watch->Stop();
    watches_.clear();
    closing_ = true;
    if (alive_ == 0) queue_.Shutdown();
  }
  thread_.join();
}

HealthWatcher::Watch* HealthWatcher::Start(
    std::shared_ptr<grpc::Channel> channel, Report report) {
  auto* watch = new Watch(&queue_, std::move(channel), std::move(report));
  {
    std::lock_guard lock(mutex_);
    watches_.insert(watch);
    ++alive_;
  }
  watch->Begin();
  return watch;
}

void HealthWatcher::Hurry(Watch* watch) { watch->Hurry(); }

void HealthWatcher::Stop(Watch* watch) {
  std::lock_guard lock(mutex_);
  watches_.erase(watch);
  watch->Stop();
}

void HealthWatcher::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    auto* watch = static_cast<Watch*>(tag);
    if (watch->Proceed(ok)) continue;
    delete watch;
    std::lock_guard lock(mutex_);
    if (--alive_ == 0 && closing_) queue_.Shutdown();
  }
}

}  // namespace quantd::client
