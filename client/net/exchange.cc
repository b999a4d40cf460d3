#include "client/net/exchange.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "client/call/error_details.h"
#include "fmt/format.h"
#include "quantd/error.h"

namespace quantd::client {
namespace {

using Clock = std::chrono::system_clock;
using std::chrono::milliseconds;

absl::Status NoServer() {
  absl::Status status = absl::UnavailableError("no server is available");
  SetRetryHint(&status, milliseconds(0));
  return status;
}

// Reconnects a lost channel, and returns at the time `until` at the latest.
// gRPC only connects while a thread waits on one of its queues, or every five
// seconds. Without this, a restarted server could go unnoticed for 20 s.
constexpr milliseconds kLook{20};
void Reconnect(Time until, grpc::Channel* channel, CallControl& control) {
  while (channel != nullptr && !control.cancelled() && Clock::now() < until) {
    const auto state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return;
    // Short waits, so that a cancelled call ends soon.
    channel->WaitForStateChange(state, std::min(until, Clock::now() + kLook));
  }
}

}  // namespace

Exchange::Exchange(std::string target, const ClientOptions& options,
                   const ChannelCredentials& credentials, Servers* servers)
    : target_(std::move(target)),
      retry_(options.retry),
      busy_poll_(options.busy_poll),
      credentials_(credentials),
      servers_(servers) {}

absl::Status Exchange::Run(const Message& message, const CallLimit& limit,
                           CallControl& control, ReceivedMessage* reply,
                           Trip* trip, const OnSent& on_sent) {
  Sender sender(message, credentials_, busy_poll_);
  return Run(
      message.size(),
      [&](grpc::GenericStub& stub, const OnSent& told) {
        return sender.Send(stub, limit, told, control, reply);
      },
      limit, control, trip, on_sent);
}

absl::Status Exchange::Run(size_t bytes, Attempt attempt,
                           const CallLimit& limit, CallControl& control,
                           Trip* trip, const OnSent& on_sent) {
  Backoff backoff(retry_, &budget_, seed_++);
  Servers::Tried tried;
  *trip = {};
  for (;;) {
    absl::Status status;
    std::shared_ptr<grpc::Channel> channel;
    if (auto lease = servers_->Pick(bytes, limit.deadline, control, &tried)) {
      ++trip->attempts;
      trip->by_unix = lease->by_unix();
      channel = lease->channel();
      OnSent told;
      if (on_sent) {
        told = [&] {
          lease->PayloadIsSent();
          on_sent();
        };
      }
      status = attempt(lease->stub(), told);
      trip->unsure |= !status.ok() && GetRequestId(status).empty();
      if (!control.cancelled()) servers_->Report(*lease, status);
    } else {
      status = Clock::now() < limit.deadline
                   ? NoServer()
                   : absl::DeadlineExceededError("no server in time");
    }
    if (status.ok()) {
      budget_.Refund();
      return status;
    }
    if (control.cancelled()) {
      return Explain(absl::CancelledError("cancelled by the caller"), limit,
                     trip->attempts);
    }
    if (servers_->HasAnother(tried) && backoff.MayMove(status)) continue;
    const auto delay = backoff.Next(status);
    const Time next = Clock::now() + delay.value_or(milliseconds(0));
    // The last error of a server explains more than "deadline exceeded".
    if (!delay || next >= limit.deadline) {
      // Reconnects for later calls, so that a call without retries finds a
      // restarted server.
      Reconnect(std::min(limit.deadline, Clock::now() + kLook), channel.get(),
                control);
      return Explain(status, limit, trip->attempts);
    }
    Reconnect(next, channel.get(), control);
    control.SleepUntil(next);
    tried.clear();
  }
}

absl::Status Exchange::Explain(const absl::Status& status,
                               const CallLimit& limit, int attempts) const {
  std::string text(status.message());
  const std::string id = GetRequestId(status);
  const size_t servers = servers_->size();
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (servers > 1) {
        text = fmt::format("none of {} quantd servers accepted the call: {}",
                           servers, servers_->Account());
      } else if (attempts == 0) {
        text = fmt::format("cannot reach a quantd server: {}",
                           servers_->Account());
      } else if (id.empty()) {
        text = fmt::format("cannot reach a quantd server at {}: {}", target(),
                           text);
      }
      break;
    case absl::StatusCode::kDeadlineExceeded:
      if (id.empty()) {
        text = fmt::format("no reply from {} within {} ms", target(),
                           limit.length.count());
        if (servers > 1 || attempts == 0) {
          text += fmt::format(": {}", servers_->Account());
        }
      }
      break;
    default:
      break;
  }
  if (!id.empty()) text += fmt::format(" (request id {})", id);
  if (attempts > 1) text += fmt::format(" (sent {} times)", attempts);
  return Annotate(status, text, attempts);
}

}  // namespace quantd::client
