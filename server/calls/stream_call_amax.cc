// A stream whose amax is reduced: its maxima told, and the answer awaited.
#include <utility>

#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "server/calls/stream_call.h"
#include "server/config/sizing.h"
#include "server/gate/steady_time.h"

namespace quantd {

std::optional<Failure> StreamCall::FindMaxima() {
  const absl::StatusOr<FoundMaxima> found = job_->FindMaxima();
  if (!found.ok()) return FromJob(found.status());
  gather_.reset();
  maxima_ = wire::MaximaReply(*found);
  // Nobody wants to hear them any more.
  return Stopped("while the maxima were found");
}

void StreamCall::TellMaxima() {
  record_.received = Clock::now();
  receive_since_ = absl::ToUnixNanos(SteadyNow());
  charge_.GrowReceive(ReceiveNeed(env_->window + maxima_.size()));
  stage_ = Stage::kFound;
  const grpc::Slice message(maxima_);
  call_->Write(grpc::ByteBuffer(&message, 1));
  // Watched from now on, unless they are told already: no answer goes before
  // this write.
  Leave(Stage::kFound, Stage::kTelling);
}

void StreamCall::OnTold(bool ok) {
  if (auto failure = Stopped("while sending the maxima")) return Fail(*failure);
  if (!ok) return Fail(Failure::Cancelled());
  AwaitAnswer(Stage::kAwaiting, 0);
}

// A client that waits for others is no sender that stalls, but what it brings
// meanwhile counts, and no more may come than an answer has, or its end.
void StreamCall::AwaitAnswer(Stage stage, size_t came) {
  env_->ledger->ExpectNext(
      came, 0,
      ReceiveNeed(stage == Stage::kAwaiting ? wire::kMaxReducedBytes : 0), this,
      &charge_);
  stage_ = stage;
  call_->Read(message_.buffer());
}

void StreamCall::OnAnswer(bool ok) {
  const size_t size = message_.size();
  // Before it counts, so that others are not revoked for it.
  if (ok && size > wire::kMaxReducedBytes) {
    return Fail(
        Failure::TooLarge("reduced_amax", size, wire::kMaxReducedBytes));
  }
  charge_.Arrived(size, ReceiveNeed(size));
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  ended_early_ = !ok;
  if (!ok) return Fail(Failure::BadRequest(wire::NoReducedAmax()));
  record_.request_bytes += size;
  quota_.Pay(size, SteadyNow());
  auto reduced = wire::ParseReducedAmax(message_.Pieces());
  if (!reduced.ok()) return Fail(Failure::BadRequest(reduced.status()));
  absl::StatusOr<Plan> plan = SettledPlan(*request_.plan, *reduced);
  if (!plan.ok()) return Fail(Failure::BadRequest(plan.status()));
  request_.plan = std::make_shared<const Plan>(*std::move(plan));
  message_.Clear();
  came_ += size;
  AwaitAnswer(Stage::kSettled, size);
}

void StreamCall::OnSettled(bool ok) {
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  if (ok) return Fail(Failure::BadRequest(wire::AfterReducedAmax()));
  charge_.Arrived(0, ReceiveNeed(0));
  record_.received = Clock::now();
  charge_.Begins(payload_bytes_);
  Submit(Stage::kQueued);
}

// A client that takes not even those. It hears why when it takes them after
// all: the answer follows what was written.
void StreamCall::WatchTelling(absl::Time now) {
  const bool late = now - absl::FromUnixNanos(receive_since_) > env_->max_send;
  if (IsInTheWay(now, came_) == InTheWay::kOfNobody && !late) return;
  if (!Leave(Stage::kTelling, Stage::kUntaken)) return;
  // All but the maxima, which the network has yet to let go of. The block goes
  // before its charge.
  job_.reset();
  place_.Reset();
  charge_.ShrinkPayload(0);
  charge_.ShrinkHead(0);
  charge_.ShrinkReceive(ReceiveNeed(maxima_.size()));
  receive_since_ = absl::ToUnixNanos(now);
  AnswerWatched(late ? Failure::Deadline(
                           "for sending: the stream's maxima were not taken "
                           "within the server's limit")
                     : Failure::Busy(env_->ledger->RetryDelay()));
}

// What nobody takes goes in the end, and at once where others wait for memory.
void StreamCall::WatchUntaken(absl::Time now) {
  const absl::Duration waited = now - absl::FromUnixNanos(receive_since_);
  if (waited > env_->max_send ||
      (waited > kSenderPatience &&
       env_->ledger->ReplyAwaitedSince(now - kSenderPatience))) {
    call_->Cancel();
  }
}

}  // namespace quantd
