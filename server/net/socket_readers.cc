#include "server/net/socket_readers.h"

#include <grpc/support/time.h>
#include <pthread.h>

#include <algorithm>

namespace quantd {
namespace {

// Of the time of all threads: above the one they are busy, below the other one
// less would do.
constexpr double kBusy = 0.9;
constexpr double kIdle = 0.75;
// Looks after which one less reads.
constexpr int kCalm = 10;
// How long a reader reads before it asks whether it should.
constexpr int64_t kTurnMs = 20;

}  // namespace

int64_t UsedBy(clockid_t clock) {
  timespec t = {};
  if (clock_gettime(clock, &t) != 0) return -1;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

SocketReaders::SocketReaders(int most) : readers_(most) {
  for (int i = 0; i < most; ++i) {
    Reader& reader = readers_[i];
    reader.thread = std::thread([this, i] { Run(i); });
    if (pthread_getcpuclockid(reader.thread.native_handle(), &reader.clock) !=
        0) {
      reader.clock = CLOCK_MONOTONIC;  // it seems busy: no harm
    }
  }
}

SocketReaders::~SocketReaders() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  nothing_.Shutdown();
  for (Reader& reader : readers_) reader.thread.join();
}

int SocketReaders::active() const {
  absl::MutexLock lock(&mutex_);
  return active_;
}

void SocketReaders::Adjust(int others, absl::Duration used,
                           absl::Duration passed) {
  for (Reader& reader : readers_) {
    const int64_t now = UsedBy(reader.clock);
    used += absl::Nanoseconds(now - reader.used);
    reader.used = now;
  }
  absl::MutexLock lock(&mutex_);
  const int threads = others + active_;
  const double busy = absl::FDivDuration(used, passed);
  calm_ = active_ > 0 && busy < kIdle * (threads - 1) ? calm_ + 1 : 0;
  if (busy > kBusy * threads) {
    active_ = std::min<int>(active_ + 1, readers_.size());
  } else if (calm_ >= kCalm) {
    --active_;
    calm_ = 0;
  }
}

void SocketReaders::Run(int index) {
  const auto wanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || index < active_;
  };
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&wanted));
      if (stopping_) break;
    }
    void* tag = nullptr;
    bool ok = false;
    // By the monotonic clock, which nobody sets.
    nothing_.AsyncNext(
        &tag, &ok,
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_millis(kTurnMs, GPR_TIMESPAN)));
  }
  // As gRPC demands of one who shuts a queue down.
  void* tag = nullptr;
  bool ok = false;
  while (nothing_.Next(&tag, &ok)) {
  }
}

}  // namespace quantd
