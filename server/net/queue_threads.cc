#include "server/net/queue_threads.h"

#include <grpc/support/time.h>
#include <pthread.h>

#include <utility>

#include "absl/time/time.h"

namespace quantd {
namespace {

// How long a thread asks a queue before it checks for users. Without a limit
// the thread of an unused queue would go on reading sockets, and would have to
// wake other threads for each message.
constexpr int64_t kLookMs = 20;
// A deadline in the past, so that nothing is waited for. The current time would
// start a gRPC timer whose thread waits by the wall clock: after a step back it
// would wait as long as the step.
constexpr std::chrono::system_clock::time_point kNow;

}  // namespace

QueueThreads::QueueThreads(LoneCaller* lone, int readers,
                           std::chrono::microseconds busy_poll)
    : lone_(lone), busy_poll_(busy_poll), readers_(readers) {
  for (QueueUsers& reader : readers_) Add(&nothing_, &reader);
}

void QueueThreads::Add(grpc::CompletionQueue* queue, QueueUsers* users) {
  absl::MutexLock lock(&mutex_);
  Seat& seat = *seats_.emplace_back(std::make_unique<Seat>(queue, users));
  seat.thread = std::thread([this, &seat] { Run(seat); });
  if (pthread_getcpuclockid(seat.thread.native_handle(), &seat.clock) != 0) {
    // With this clock a waiting thread seems busy, which does no harm.
    seat.clock = CLOCK_MONOTONIC;
  }
}

void QueueThreads::Join() {
  std::vector<std::unique_ptr<Seat>> seats;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(joined_, true)) return;
    seats.swap(seats_);
  }
  nothing_.Shutdown();
  for (const auto& seat : seats) {
    // Wakes threads whose queues have no users: they must drain their queues,
    // too.
    if (seat->users != nullptr) seat->users->Enter();
  }
  for (const auto& seat : seats) seat->thread.join();
}

bool QueueThreads::Ask(const Seat& seat, void** tag, bool* ok) {
  using Clock = std::chrono::steady_clock;
  while (seat.users != nullptr) {
    seat.users->AwaitAny();
    // The monotonic clock cannot be set.
    const auto answer = seat.queue->AsyncNext(
        tag, ok,
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_millis(kLookMs, GPR_TIMESPAN)));
    if (answer != grpc::CompletionQueue::TIMEOUT) {
      return answer == grpc::CompletionQueue::GOT_EVENT;
    }
  }
  const auto end = Clock::now() + busy_poll_;
  while (lone_->looks() || Clock::now() < end) {
    const auto answer = seat.queue->AsyncNext(tag, ok, kNow);
    if (answer != grpc::CompletionQueue::TIMEOUT) {
      return answer == grpc::CompletionQueue::GOT_EVENT;
    }
    lone_->NothingHasCome();
  }
  return seat.queue->Next(tag, ok);
}

void QueueThreads::Run(const Seat& seat) {
  void* tag = nullptr;
  bool ok = false;
  while (Ask(seat, &tag, &ok)) {
    static_cast<CompletionTag*>(tag)->deliver(ok);
    if (std::exchange(thread_is_relieved, false)) return;
  }
}

void QueueThreads::Look() {
  absl::MutexLock lock(&mutex_);
  absl::Duration all;
  int awake = 0;
  for (const auto& seat : seats_) {
    timespec time = {};
    clock_gettime(seat->clock, &time);
    const absl::Duration used = absl::DurationFromTimespec(time);
    all += used - std::exchange(seat->used, used);
    awake += seat->users == nullptr || seat->users->any() ? 1 : 0;
  }
  const absl::Time now = SteadyNow();
  const double busy =
      absl::FDivDuration(all, now - std::exchange(looked_, now));
  const int before = std::exchange(
      reading_,
      Readers(reading_, static_cast<int>(readers_.size()), awake, busy));
  if (reading_ > before) readers_[before].Enter();
  if (reading_ < before) readers_[reading_].Leave();
}

}  // namespace quantd
