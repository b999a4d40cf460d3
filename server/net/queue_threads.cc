#include "server/net/queue_threads.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "server/net/completion_tag.h"

namespace quantd {
namespace {

// How often is looked at the threads, and what one does in that time that waits
// for nothing.
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
constexpr int64_t kBusyNs = 1'000'000;
// How long a queue is asked before its thread looks whether it has users, by
// the monotonic clock, which nobody sets.
constexpr int64_t kAskMs = 20;
// A deadline that has passed by any clock: nothing is waited for. One of now
// would be a timer of gRPC's, whose thread waits by the wall clock: after a
// step back of that, for as long as it went back.
constexpr std::chrono::system_clock::time_point kNow;

}  // namespace

// A queue and one thread of it.
struct QueueThreads::Seat {
  Seat(grpc::ServerCompletionQueue* q, QueueUsers* u) : queue(q), users(u) {}

  // As `ask`, which asks the queue.
  template <typename Ask>
  auto Noted(Ask ask) {
    asks = true;
    const auto answer = ask();
    asks = false;
    answers.fetch_add(1, std::memory_order_relaxed);
    return answer;
  }

  grpc::ServerCompletionQueue* const queue;
  QueueUsers* const users;
  // Held by whoever delivers, so that a call's events come one at a time.
  absl::Mutex turn;
  std::atomic<bool> asks{false};  // the queue, for the next event
  std::atomic<uint64_t> answers{0};
  // An event of no call, which says that the queue has something.
  grpc::Alarm alarm;
  std::atomic<bool> marked{false};
  CompletionTag mark{[this](bool) { marked = false; }};
  std::thread thread;
  clockid_t clock = 0;
  // As the last look found them.
  uint64_t answers_then = 0;
  int64_t used_then = 0;
};

QueueThreads::QueueThreads(LoneCaller* lone, int readers,
                           std::chrono::microseconds busy_poll)
    : lone_(lone),
      busy_poll_(busy_poll),
      readers_(readers),
      relief_([this] { RunRelief(); }) {}

QueueThreads::~QueueThreads() {
  StopRelief();
  Join();
}

void QueueThreads::Add(grpc::ServerCompletionQueue* queue, QueueUsers* users) {
  absl::MutexLock lock(&mutex_);
  Seat* const seat =
      seats_.emplace_back(std::make_unique<Seat>(queue, users)).get();
  seat->thread = std::thread([this, seat] { Run(seat); });
  if (pthread_getcpuclockid(seat->thread.native_handle(), &seat->clock) != 0) {
    seat->clock = CLOCK_MONOTONIC;  // what waits seems busy: no harm
  }
}

void QueueThreads::StopRelief() {
  if (!relief_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.SignalAll();
  }
  relief_.join();
}

void QueueThreads::Join() {
  std::vector<std::unique_ptr<Seat>> seats;
  {
    absl::MutexLock lock(&mutex_);
    seats.swap(seats_);
  }
  for (const auto& seat : seats) {
    // A queue that is shut down is asked to its end.
    if (seat->users != nullptr) seat->users->Enter();
  }
  for (const auto& seat : seats) seat->thread.join();
}

// As Next. An answer that there is nothing is one, too: the thread is not
// caught.
bool QueueThreads::Ask(Seat* seat, void** tag, bool* ok) {
  using Clock = std::chrono::steady_clock;
  if (seat->users != nullptr) return AskForUsers(seat, tag, ok);
  const auto end = Clock::now() + busy_poll_;
  while (lone_->looks() || Clock::now() < end) {
    const auto answer =
        seat->Noted([&] { return seat->queue->AsyncNext(tag, ok, kNow); });
    if (answer != grpc::CompletionQueue::TIMEOUT) {
      return answer == grpc::CompletionQueue::GOT_EVENT;
    }
    lone_->NothingHasCome();
  }
  return seat->Noted([&] { return seat->queue->Next(tag, ok); });
}

// Whoever asks reads sockets, in the place of one that it must wake: it stops
// soon after the last of them has gone.
bool QueueThreads::AskForUsers(Seat* seat, void** tag, bool* ok) {
  while (true) {
    seat->users->AwaitAny();
    const auto answer = seat->Noted([&] {
      return seat->queue->AsyncNext(
          tag, ok,
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                       gpr_time_from_millis(kAskMs, GPR_TIMESPAN)));
    });
    if (answer != grpc::CompletionQueue::TIMEOUT) {
      return answer == grpc::CompletionQueue::GOT_EVENT;
    }
  }
}

void QueueThreads::Run(Seat* seat) {
  void* tag = nullptr;
  bool ok = false;
  while (Ask(seat, &tag, &ok)) {
    absl::MutexLock lock(&seat->turn);
    static_cast<CompletionTag*>(tag)->deliver(ok);
    if (std::exchange(thread_is_relieved, false)) return;
  }
}

// The mark is in the queue while this asks, so that gRPC has an event at hand
// and looks at no socket.
void QueueThreads::Relieve(Seat& seat) {
  if (!seat.marked.exchange(true)) {
    seat.alarm.Set(seat.queue, kNow, &seat.mark);
  }
  while (seat.marked && seat.asks) {
    absl::MutexLock lock(&seat.turn);
    void* tag = nullptr;
    bool ok = false;
    if (seat.queue->AsyncNext(&tag, &ok, kNow) !=
        grpc::CompletionQueue::GOT_EVENT) {
      return;
    }
    static_cast<CompletionTag*>(tag)->deliver(ok);
    thread_is_relieved = false;
  }
}

std::vector<QueueThreads::Seat*> QueueThreads::Look(absl::Duration passed) {
  std::vector<Seat*> caught;
  int64_t all = 0;
  int awake = 0;
  for (const auto& seat : seats_) {
    const uint64_t answers = seat->answers.load(std::memory_order_relaxed);
    const int64_t used = UsedBy(seat->clock);
    if (seat->asks && answers == seat->answers_then &&
        used - seat->used_then > kBusyNs) {
      caught.push_back(seat.get());
    }
    all += used - seat->used_then;
    awake += seat->users == nullptr || seat->users->any() ? 1 : 0;
    seat->answers_then = answers;
    seat->used_then = used;
  }
  readers_.Adjust(awake, absl::Nanoseconds(all), passed);
  return caught;
}

void QueueThreads::RunRelief() {
  const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_;
  };
  absl::Time looked = SteadyNow();
  while (true) {
    std::vector<Seat*> caught;
    {
      absl::MutexLock lock(&mutex_);
      if (stop_.WaitUntil(&mutex_, looked + kLookInterval, stopping)) return;
      const absl::Time now = SteadyNow();
      caught = Look(now - std::exchange(looked, now));
    }
    for (Seat* const seat : caught) Relieve(*seat);
  }
}

}  // namespace quantd
