// What takes too long: a client that does not go on, a device that hangs.
#include <algorithm>

#include "server/calls/call.h"
#include "server/config/sizing.h"

namespace quantd {
namespace {

// A call that holds memory and does not go on for so long makes way for others
// that wait.
constexpr absl::Duration kStall = absl::Milliseconds(250);
// A network thread that is in a job for longer is relieved: all who have just
// come wait for it.
constexpr std::chrono::milliseconds kLongInline{100};
// What a connection must bring for each of its calls within kStall, or they
// count as stalled.
constexpr uint64_t kLeastStep = 4 << 10;
// What a stream must bring in a second beside what is allowed for any.
constexpr uint64_t kSlowest = uint64_t{1} << 20;

}  // namespace

void Call::OnWatch(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  switch (stage_) {
    case Stage::kReceiving:
    case Stage::kFeeding:
    case Stage::kTelling:
      return WatchClient(now);
    case Stage::kRunning:
      return WatchJob();
    case Stage::kReplying:
      return WatchSending(now);
    case Stage::kClosing:
      // Nothing follows what the client does not take, not even an error.
      if (now - since_ > env_->options.max_send) call_->Cancel();
      return;
    default:
      return;
  }
}

void Call::WatchClient(absl::Time now) {
  if (Moves()) moved_ = now;
  const bool tells = stage_ == Stage::kTelling;
  const bool feeds = stage_ == Stage::kFeeding;
  const absl::Duration stalled = now - moved_;
  // With the answer to maxima the client itself waits for others.
  const absl::Duration patience = (payload_->AwaitsAnswer() ? 4 : 1) * kStall;
  const absl::Duration limit =
      tells ? env_->options.max_send : env_->options.max_receive;
  const absl::Duration whole =
      limit + absl::Seconds(payload_->bytes_to_come() / kSlowest);
  const uint64_t came = declared_ ? came_alone_.Look(*call_->connection()) : 0;
  std::optional<Failure> failure;
  if (stalled > limit || now - since_ > whole) {
    failure = Failure::Deadline(
        tells ? "for sending: the stream's maxima were not taken within the "
                "server's limit"
        : payload_->AwaitsAnswer()
            ? "for receiving: the answer to the stream's maxima did not come "
              "within the server's limit"
        : feeds ? "for receiving: the stream's chunks do not come within the "
                  "server's limit"
                : "for receiving: the request did not arrive within the "
                  "server's limit");
  } else if (declared_ && came > *declared_ + env_->shares.window) {
    failure = Failure::LongerThanDeclared(came, *declared_);
  } else if ((stalled > patience &&
              env_->gate->OthersWaitSince(now - patience)) ||
             (!tells && !Grow())) {
    failure = Failure::Busy(env_->gate->RetryAfter(now));
  }
  // What it holds goes back when the read, which this ends, comes back.
  if (!failure || !call_->ClaimAnswer()) return;
  record_.error = failure->message;
  Close(*failure);
  if (!tells) return;
  // A write need not come back: all but the maxima goes now, the block before
  // its lease.
  payload_->DropJob();
  lease_.ShrinkPayload(0);
  lease_.ShrinkHead(0);
  lease_.HoldReceiving(payload_->told().size());
}

// Whether enough has come, or anything was taken, since the call last moved.
// Calls of one connection share what is known of it, so each needs its part: a
// client that opens calls and sends nothing in them would keep them all alive.
bool Call::Moves() {
  const Connection& connection = *call_->connection();
  if (stage_ == Stage::kTelling) {
    const auto sent = connection.Sent();
    const uint64_t taken = sent ? sent->taken : 0;
    return std::exchange(seen_, taken) != taken;
  }
  if (payload_->AwaitsAnswer()) return false;
  const auto received = connection.Received();
  if (!received) {
    // Nobody knows what comes of a request; of a stream, its messages do.
    const uint64_t came = record_.request_bytes;
    return std::exchange(seen_, came) != came || stage_ == Stage::kReceiving;
  }
  // Then it is not the client who is slow.
  if (connection.HasUnread()) return true;
  const uint64_t calls = std::max(1, connection.calls());
  if (*received < seen_ + kLeastStep * calls) return false;
  seen_ = *received;
  return true;
}

// Calls of one connection are taken to have brought as much each.
bool Call::Grow() {
  if (declared_ || most_ == 0 || !received_before_) return true;
  const auto received = call_->connection()->Received();
  if (!received) return true;
  const uint64_t calls = std::max(1, call_->connection()->calls());
  const uint64_t came = (*received - *received_before_) / calls;
  return came == 0 ||
         lease_.GrowReceiving(ReceiveNeed(std::min<uint64_t>(came, most_)));
}

void Call::WatchJob() {
  if (runs_inline_ && !relieved_ &&
      Clock::now() - job_watch_.began() > kLongInline) {
    relieved_ = true;
    env_->queue_threads.Add(call_->queue());
  }
  if (!job_watch_.Hangs()) return;
  env_->monitor->Report(lease_.device(), DeviceFault::kHang,
                        "a job does not get on within its limit", record_.id);
  // The job may write to what the client lends as long as it lives; that the
  // client must treat as after a deadline of its own.
  const Failure failure =
      payload_->places().lends_outputs()
          ? Failure::Deadline(
                "while the job ran: the device does not answer, and may still "
                "write to the memory that the call lends")
          : Failure::NoDevice(env_->monitor->RetryDelay());
  if (call_->ClaimAnswer()) {
    Close(failure);
    // A shutdown need not wait for what has its answer.
    Release();
  } else {
    stage_ = Stage::kClosing;
  }
}

void Call::WatchSending(absl::Time now) {
  const bool awaited = env_->gate->OthersWaitSince(now - kStall);
  const auto verdict = reply_->Look(*call_->connection(),
                                    awaited ? kStall : absl::InfiniteDuration(),
                                    env_->options.max_send, now);
  if (verdict == Reply::Verdict::kGood) return;
  stage_ = Stage::kClosing;
  since_ = now;
  if (verdict == Reply::Verdict::kStuck) {
    call_->connection()->Shut();
  } else {
    call_->Cancel();
  }
}

}  // namespace quantd
