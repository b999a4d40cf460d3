// Events of the emulated runtime, and what the host may take for done.
#ifndef QUANTD_TESTS_EMULATION_STREAMS_H_
#define QUANTD_TESTS_EMULATION_STREAMS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace emulation {

// The number of the last mark that has been seen, for each stream.
using Seen = std::map<const void*, uint64_t>;

// What an event is for every process that knows it.
struct EventState {
  std::atomic<std::chrono::steady_clock::time_point> at = {};
  std::atomic<bool> held = false;
  std::atomic<int> records = 0;
  unsigned flags = 0;
  // The stream on which it was recorded last, and what that had seen by then.
  const void* stream = nullptr;
  Seen before;
};
inline std::atomic<int> events = 0;
struct Event {
  explicit Event(std::shared_ptr<EventState> of) : state(std::move(of)) {
    ++events;
  }
  ~Event() { --events; }
  const std::shared_ptr<EventState> state;
};
inline EventState& StateOf(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event)->state;
}

// --- what tests arrange and ask ----------------------------------------------

// While held, an event has not passed.
void Hold(cudaEvent_t event, bool held);
// How often it was recorded.
int Records(cudaEvent_t event);
// Events that exist, those opened by a handle among them.
int Events();

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_STREAMS_H_
