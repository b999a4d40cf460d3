#include "client/quantctl/bench/load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>
#include <vector>

namespace quantd::quantctl {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t Nanoseconds(Clock::duration d) {
  return static_cast<uint64_t>(std::max<int64_t>(
      0, std::chrono::duration_cast<std::chrono::nanoseconds>(d).count()));
}

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds));
}

// In short naps, so that an interrupt need not wait for a call that is due in
// a minute.
void SleepUntil(Clock::time_point due, const std::atomic<int>& stop) {
  while (stop == 0 && Clock::now() < due) {
    std::this_thread::sleep_until(
        std::min(due, Clock::now() + std::chrono::milliseconds(50)));
  }
}

}  // namespace

void Outcome::Merge(const Outcome& later) {
  nanoseconds.Merge(later.nanoseconds);
  good += later.good;
  refused += later.refused;
  failed += later.failed;
  unsent += later.unsent;
  seconds += later.seconds;
  error.Update(later.error);
}

Outcome RunLoad(const Load& load, const std::function<absl::Status()>& call,
                const std::atomic<int>& stop) {
  uint64_t calls = load.calls;
  if (load.rate > 0) {
    calls = std::min(
        calls, static_cast<uint64_t>(std::ceil(load.rate * load.seconds)));
  }
  const auto start = Clock::now();
  const auto last = start + Seconds(load.seconds * (load.rate > 0 ? 2 : 1));
  const auto due_at = [&](uint64_t i) {
    return start + Seconds(static_cast<double>(i) / load.rate);
  };
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  Outcome all;
  const auto work = [&] {
    Outcome mine;
    while (stop == 0 && Clock::now() < last) {
      const uint64_t i = next++;
      if (i >= calls) break;
      auto from = Clock::now();
      if (load.rate > 0) {
        from = due_at(i);
        SleepUntil(from, stop);
        if (stop != 0) break;
      }
      const absl::Status status = call();
      if (status.ok()) {
        ++mine.good;
        mine.nanoseconds.Add(Nanoseconds(Clock::now() - from));
        continue;
      }
      ++(absl::IsResourceExhausted(status) ? mine.refused : mine.failed);
      if (mine.error.ok()) mine.error = status;
      // Nobody is there: more of the same says nothing.
      if (absl::IsUnavailable(status)) break;
    }
    const std::lock_guard lock(mutex);
    all.Merge(mine);
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < load.callers; ++i) callers.emplace_back(work);
  for (std::thread& caller : callers) caller.join();
  const auto end = Clock::now();
  all.seconds = std::chrono::duration<double>(end - start).count();
  if (load.rate > 0) {
    for (uint64_t i = next; i < calls && due_at(i) < end; ++i) {
      ++all.unsent;
      all.nanoseconds.Add(Nanoseconds(end - due_at(i)));
    }
  }
  return all;
}

}  // namespace quantd::quantctl
