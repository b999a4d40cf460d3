// A stream whose amax is reduced: its maxima told, and the answer awaited.
#include <utility>

#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "server/sizing.h"
#include "server/steady_time.h"
#include "server/stream_call.h"

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
  stage_ = Stage::kTelling;
  const grpc::Slice message(maxima_);
  call_->Write(grpc::ByteBuffer(&message, 1));
}

// What comes is to be small, and counts as what nobody has asked for until it
// is here: a client that waits for others is no sender that stalls.
void StreamCall::AwaitAnswer(Stage stage) {
  stage_ = stage;
  call_->Read(message_.buffer());
}

void StreamCall::OnAnswer(bool ok) {
  if (call_->answered()) return LetGo();
  const size_t size = message_.size();
  // Before it counts, so that others are not revoked for it.
  if (ok && size > wire::kMaxReducedBytes) {
    return Fail(
        Failure::TooLarge("reduced_amax", size, wire::kMaxReducedBytes));
  }
  env_->ledger->ExpectNext(0, ReceiveNeed(size), ReceiveNeed(size), this,
                           &charge_);
  charge_.Arrived(size, ReceiveNeed(env_->window + size));
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
  AwaitAnswer(Stage::kSettled);
}

void StreamCall::OnSettled(bool ok) {
  if (call_->answered()) return LetGo();
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  if (ok) return Fail(Failure::BadRequest(wire::AfterReducedAmax()));
  record_.received = Clock::now();
  charge_.Begins(payload_bytes_);
  Submit(Stage::kQueued);
}

// A client that takes not even those: the write, which this ends, lets go.
void StreamCall::WatchTelling(absl::Time now) {
  if (IsInTheWay(now, came_) ||
      now - absl::FromUnixNanos(receive_since_) > env_->max_send) {
    call_->Cancel();
  }
}

}  // namespace quantd
