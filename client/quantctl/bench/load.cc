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
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(d).count());
}

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds));
}

// Sleeps in short intervals, so that an interrupt takes effect soon.
void SleepUntil(Clock::time_point due, const std::atomic<int>& stop) {
  while (stop == 0 && Clock::now() < due) {
    std::this_thread::sleep_until(
        std::min(due, Clock::now() + std::chrono::milliseconds(50)));
  }
}

}  // namespace

uint64_t Outcome::Quantile(double q) const {
  if (nanoseconds.empty()) return 0;
  const double rank = std::ceil(q * static_cast<double>(nanoseconds.size()));
  return nanoseconds[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

Outcome RunLoad(const Load& load, const std::function<absl::Status(int)>& call,
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
  const auto work = [&](int caller) {
    std::vector<uint64_t> nanoseconds;
    while (stop == 0 && Clock::now() < last) {
      const uint64_t i = next++;
      if (i >= calls) break;
      auto from = Clock::now();
      if (load.rate > 0) {
        from = due_at(i);
        SleepUntil(from, stop);
        if (stop != 0) break;
      }
      const absl::Status status = call(caller);
      if (status.ok()) {
        nanoseconds.push_back(Nanoseconds(Clock::now() - from));
        continue;
      }
      const std::lock_guard lock(mutex);
      ++all.errors[status.code()];
      ++(absl::IsResourceExhausted(status) ? all.refused : all.failed);
      all.error.Update(status);
      // Ends if there is no server.
      if (absl::IsUnavailable(status)) break;
    }
    const std::lock_guard lock(mutex);
    all.good += nanoseconds.size();
    all.nanoseconds.insert(all.nanoseconds.end(), nanoseconds.begin(),
                           nanoseconds.end());
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < load.callers; ++i) callers.emplace_back(work, i);
  for (std::thread& caller : callers) caller.join();
  const auto end = Clock::now();
  all.seconds = std::chrono::duration<double>(end - start).count();
  if (load.rate > 0) {
    for (uint64_t i = next; i < calls && due_at(i) < end; ++i) {
      ++all.unsent;
      all.nanoseconds.push_back(Nanoseconds(end - due_at(i)));
    }
  }
  std::ranges::sort(all.nanoseconds);
  return all;
}

}  // namespace quantd::quantctl
