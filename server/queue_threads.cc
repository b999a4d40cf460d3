#include "server/queue_threads.h"

#include <grpcpp/alarm.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "server/completion_tag.h"

namespace quantd {
namespace {

// How often is looked at the threads, and what one does in that time that waits
// for nothing.
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
constexpr int64_t kBusyNs = 1'000'000;
// A deadline that has passed by any clock: nothing is waited for. One of now
// would be a timer of gRPC's, whose thread waits by the wall clock: after a
// step back of that, for as long as it went back.
constexpr std::chrono::system_clock::time_point kNow;

// Processor time that a thread has used, in ns; -1: not to be known.
int64_t UsedBy(clockid_t clock) {
  timespec t = {};
  if (clock_gettime(clock, &t) != 0) return -1;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

// A queue and one thread of it.
struct QueueThreads::Seat {
  explicit Seat(grpc::ServerCompletionQueue* q) : queue(q) {}

  grpc::ServerCompletionQueue* const queue;
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

QueueThreads::QueueThreads(std::chrono::microseconds busy_poll)
    : busy_poll_(busy_poll), relief_([this] { RunRelief(); }) {}

QueueThreads::~QueueThreads() {
  StopRelief();
  Join();
}

void QueueThreads::Add(grpc::ServerCompletionQueue* queue) {
  absl::MutexLock lock(&mutex_);
  Seat* const seat = seats_.emplace_back(std::make_unique<Seat>(queue)).get();
  seat->thread = std::thread([seat, p = busy_poll_] { Run(seat, p); });
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
  for (const auto& seat : seats) seat->thread.join();
}

// As Next. An answer that there is nothing is one, too: the thread is not
// caught.
bool QueueThreads::Ask(Seat* seat, std::chrono::microseconds busy_poll,
                       void** tag, bool* ok) {
  using Clock = std::chrono::steady_clock;
  const auto asked = [&](auto ask) {
    seat->asks = true;
    const auto answer = ask();
    seat->asks = false;
    seat->answers.fetch_add(1, std::memory_order_relaxed);
    return answer;
  };
  if (busy_poll.count() > 0) {
    for (const auto end = Clock::now() + busy_poll; Clock::now() < end;) {
      const auto answer =
          asked([&] { return seat->queue->AsyncNext(tag, ok, kNow); });
      if (answer != grpc::CompletionQueue::TIMEOUT) {
        return answer == grpc::CompletionQueue::GOT_EVENT;
      }
    }
  }
  return asked([&] { return seat->queue->Next(tag, ok); });
}

void QueueThreads::Run(Seat* seat, std::chrono::microseconds busy_poll) {
  void* tag = nullptr;
  bool ok = false;
  while (Ask(seat, busy_poll, &tag, &ok)) {
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

void QueueThreads::RunRelief() {
  const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_;
  };
  while (true) {
    std::vector<Seat*> caught;
    {
      absl::MutexLock lock(&mutex_);
      if (stop_.WaitUntil(&mutex_, SteadyNow() + kLookInterval, stopping)) {
        return;
      }
      for (const auto& seat : seats_) {
        const uint64_t answers = seat->answers.load(std::memory_order_relaxed);
        const int64_t used = UsedBy(seat->clock);
        if (seat->asks && answers == seat->answers_then &&
            used - seat->used_then > kBusyNs) {
          caught.push_back(seat.get());
        }
        seat->answers_then = answers;
        seat->used_then = used;
      }
    }
    for (Seat* const seat : caught) Relieve(*seat);
  }
}

}  // namespace quantd
