#include "client/bands/band_threads.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "client/call/error_details.h"
#include "fmt/format.h"

namespace quantd::client {
namespace {

// More threads bring no gain.
constexpr int kMostAtOnce = 64;

absl::Status WithRows(const absl::Status& status, const Band& band) {
  if (absl::IsCancelled(status)) return status;
  return Annotate(
      status,
      fmt::format("rows {} to {}: {}", band.row, band.row + band.rows - 1,
                  std::string(status.message())),
      GetAttempts(status));
}

}  // namespace

absl::Status ForEachBand(CallControl& whole, const std::vector<Band>& bands,
                         int at_once, Turns& turns, const Work& work,
                         bool meet) {
  const auto threads = static_cast<size_t>(std::min<int64_t>(
      std::clamp(at_once, 1, kMostAtOnce), static_cast<int64_t>(bands.size())));
  // One control per thread, because a control can stop one thing at a time.
  std::deque<CallControl> controls(threads);
  const auto stop = [&] {
    for (CallControl& control : controls) control.Cancel();
  };
  std::mutex mutex;
  absl::Status first;
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto fail = [&](const absl::Status& status) {
    next = bands.size();
    failed = true;
    {
      const std::lock_guard lock(mutex);
      if (!first.ok()) return;
      first = status;
    }
    turns.release(static_cast<ptrdiff_t>(threads));
    stop();
  };
  const auto loop = [&](CallControl& control) {
    for (;;) {
      const size_t i = next++;
      if (i >= bands.size()) return;
      turns.acquire();
      if (failed) return;
      const absl::Status status = work(bands[i], control);
      if (!status.ok()) return fail(WithRows(status, bands[i]));
    }
  };
  const CallControl::Stage stage(&whole, stop);
  std::vector<std::thread> others;
  others.reserve(threads);
  try {
    for (size_t i = 1; i < threads; ++i) {
      others.emplace_back(loop, std::ref(controls[i]));
    }
  } catch (const std::system_error&) {
    // The machine has no more threads: continue with fewer.
    if (meet) {
      fail(absl::ResourceExhaustedError("the machine has no more threads"));
    }
  }
  loop(controls[0]);
  for (std::thread& thread : others) thread.join();
  return first;
}

}  // namespace quantd::client
