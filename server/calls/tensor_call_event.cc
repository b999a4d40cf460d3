// A tensor call that waits for an event of its client's.
#include "absl/time/clock.h"
#include "server/calls/tensor_call.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// Looked at for so long, an event has often passed, and no other thread need be
// woken.
constexpr std::chrono::microseconds kLook{50};

}  // namespace

// Without a slot and without memory for the payload: what the client waits for
// may take long, or never be done.
void TensorCall::AwaitEvent() {
  stage_ = Stage::kWaiting;
  const auto end = Clock::now() + kLook;
  do {
    if (places_.wait_event()->Passed()) return Claim();
  } while (Clock::now() < end);
  on_network_ = false;
  wait_until_ = SteadyNow() + env_->max_receive;
  call_->Ref();  // for OnWaitOver
  env_->events->Add(this);
}

bool TensorCall::WaitIsOver() {
  event_passed_ = places_.wait_event()->Passed();
  return event_passed_ || Stopped("") || SteadyNow() >= wait_until_;
}

void TensorCall::OnWaitOver() {
  if (auto failure = Stopped("while waiting for an event")) {
    Fail(*failure);
  } else if (!event_passed_) {
    Fail(Failure::Deadline(
        "for memory.wait_event: it did not pass within the server's limit"));
  } else {
    Claim();
  }
  call_->Unref();
}

}  // namespace quantd
