// Events of the emulated runtime, and the work that the host has waited for.
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

// For each stream, the number of its last event record (a mark) that has been
// waited for. All records of all streams are numbered together.
using Seen = std::map<const void*, uint64_t>;

// The state of an event. It is shared by all cudaEvent_t for that event, also
// those opened from an IPC handle.
struct EventState {
  std::atomic<std::chrono::steady_clock::time_point> at = {};
  std::atomic<bool> held = false;
  std::atomic<int> records = 0;
  unsigned flags = 0;
  // The stream on which the event was last recorded, and the last marks of all
  // streams before that.
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

// --- for tests ---------------------------------------------------------------

// Makes queries of an event return cudaErrorNotReady while it is held.
void Hold(cudaEvent_t event, bool held);
// The number of times that an event was recorded.
int Records(cudaEvent_t event);
// The number of existing events, including those opened from an IPC handle.
int Events();

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_STREAMS_H_
