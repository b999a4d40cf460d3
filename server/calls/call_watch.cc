// Time limits of a call: a client that makes no progress, a device that hangs.
#include <algorithm>

#include "fmt/format.h"
#include "server/calls/call.h"
#include "server/config/sizing.h"

namespace quantd {
namespace {

// A call that holds memory and makes no progress for this long yields to others
// that wait.
constexpr absl::Duration kStall = absl::Milliseconds(250);
// A network thread that has been in a job for longer is replaced, since all new
// calls wait for it.
constexpr std::chrono::milliseconds kLongInline{100};
// Bytes that a connection must bring for each of its calls within kStall, or
// they count as stalled.
constexpr uint64_t kLeastStep = 4 << 10;
// Lowest speed of a stream, in bytes a second: it may take the time that its
// bytes take at this speed, in addition to the time limit of any call.
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
      // If the client does not take the reply, it would not take an error
      // either.
      if (now - since_ > env_->options.max_send) call_->Cancel();
      return;
    default:
      return;
  }
}

void Call::WatchClient(absl::Time now) {
  if (Moves()) moved_ = now;
  const bool tells = stage_ == Stage::kTelling;
  const absl::Duration stalled = now - moved_;
  // A client that answers the maxima must first wait for other clients.
  const absl::Duration patience = (payload_->AwaitsAnswer() ? 4 : 1) * kStall;
  const absl::Duration limit =
      tells ? env_->options.max_send : env_->options.max_receive;
  const absl::Duration whole =
      limit + absl::Seconds(payload_->bytes_to_come() / kSlowest);
  const uint64_t came = declared_ ? came_alone_.Look(*call_->connection()) : 0;
  std::optional<Failure> failure;
  if (stalled > limit || now - since_ > whole) {
    failure = Failure::Deadline(fmt::format(
        "for {} within the server's limit",
        tells ? "sending: the stream's maxima were not taken"
        : payload_->AwaitsAnswer()
            ? "receiving: the answer to the stream's maxima did not come"
        : stage_ == Stage::kFeeding
            ? "receiving: the stream's chunks do not come"
            : "receiving: the request did not arrive"));
  } else if (declared_ && came > *declared_ + env_->shares.window) {
    failure = Failure::LongerThanDeclared(came, *declared_);
  } else if ((stalled > patience &&
              env_->gate->OthersWaitSince(now - patience)) ||
             (!tells && !Grow())) {
    failure = Failure::Busy(env_->gate->RetryAfter(now));
  }
  // The answer ends the pending read. What the call holds is released when the
  // read returns.
  if (!failure || !call_->ClaimAnswer()) return;
  record_.error = failure->message;
  Close(*failure);
  if (!tells) return;
  // The pending write may never return: all but the maxima is released now, the
  // block before its lease.
  payload_->DropJob();
  lease_.ShrinkPayload(0);
  lease_.ShrinkHead(0);
  lease_.HoldReceiving(payload_->told().size());
}

// Whether the client has sent enough, or taken anything, since the call last
// moved. Only the bytes of the whole connection are known, so each call needs
// its part of them: otherwise a client could open calls, send nothing in them
// and keep them all alive.
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
    // The connection's bytes are not counted. A stream moves with each whole
    // message; a single request always counts as moving.
    const uint64_t came = record_.request_bytes;
    return std::exchange(seen_, came) != came || stage_ == Stage::kReceiving;
  }
  // Bytes wait to be read, so the client is not what is slow.
  if (connection.HasUnread()) return true;
  const uint64_t calls = std::max(1, connection.calls());
  if (*received < seen_ + kLeastStep * calls) return false;
  seen_ = *received;
  return true;
}

// All calls of a connection are assumed to have brought equal parts.
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
                        "a job makes no progress within its limit", record_.id);
  // The job may write to lent memory as long as it lives. The client must treat
  // this failure like its own deadline.
  const Failure failure =
      payload_->places().lends_outputs()
          ? Failure::Deadline(
                "while the job ran: the device does not answer, and may still "
                "write to the memory that the call lends")
          : Failure::NoDevice(env_->monitor->RetryDelay());
  if (call_->ClaimAnswer()) {
    Close(failure);
    // A shutdown need not wait for calls that are answered.
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
