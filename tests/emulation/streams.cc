// Streams and events. The emulation does work when it is queued. On a GPU, work
// is known to be done only after the host has waited for something queued
// behind it. So reading the time of an event fails unless the host has waited
// in that way.
#include "tests/emulation/streams.h"

#include <algorithm>
#include <mutex>

namespace emulation {
namespace {

std::mutex streams_mutex;
// The number of marks so far. All streams count together, because a new stream
// may have the address of a destroyed one.
uint64_t marks = 0;
std::map<const void*, Seen> streams;
Seen host_saw;

void AddSeen(const Seen& more, Seen* seen) {
  for (const auto& [stream, number] : more) {
    uint64_t& known = (*seen)[stream];
    known = std::max(known, number);
  }
}

// Records that the host has waited for all work of a stream.
void SeeStream(const void* stream) {
  const std::lock_guard lock(streams_mutex);
  AddSeen(streams[stream], &host_saw);
}
void See(const EventState& event) {
  const std::lock_guard lock(streams_mutex);
  AddSeen(event.before, &host_saw);
}
bool HasHappened(const EventState& event) {
  const std::lock_guard lock(streams_mutex);
  const auto own = event.before.find(event.stream);
  if (own == event.before.end()) return false;  // never recorded
  const auto seen = host_saw.find(event.stream);
  return seen != host_saw.end() && seen->second >= own->second;
}

}  // namespace

void Hold(cudaEvent_t event, bool held) { StateOf(event).held = held; }
int Records(cudaEvent_t event) { return StateOf(event).records; }
int Events() { return events; }

}  // namespace emulation

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    // A new stream may get this address, but it has no marks.
    const std::lock_guard lock(emulation::streams_mutex);
    emulation::streams.erase(stream);
  }
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulation::SeeStream(stream);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* data) {
  emulation::SeeStream(stream);
  function(data);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  emulation::SeeStream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  const std::lock_guard lock(emulation::streams_mutex);
  emulation::AddSeen(emulation::StateOf(event).before,
                     &emulation::streams[stream]);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto state = std::make_shared<emulation::EventState>();
  state->flags = flags;
  *event = reinterpret_cast<cudaEvent_t>(new emulation::Event(state));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<emulation::Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  emulation::EventState& state = emulation::StateOf(event);
  {
    const std::lock_guard lock(emulation::streams_mutex);
    emulation::Seen& given = emulation::streams[stream];
    given[stream] = ++emulation::marks;
    state.stream = stream;
    state.before = given;
  }
  state.at = std::chrono::steady_clock::now();
  ++state.records;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const emulation::EventState& state = emulation::StateOf(event);
  if (state.held) return cudaErrorNotReady;
  emulation::See(state);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulation::See(emulation::StateOf(event));
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const emulation::EventState& first = emulation::StateOf(from);
  const emulation::EventState& last = emulation::StateOf(to);
  if (!emulation::HasHappened(first) || !emulation::HasHappened(last)) {
    return cudaErrorNotReady;
  }
  const std::chrono::duration<float, std::milli> took =
      last.at.load() - first.at.load();
  *ms = took.count();
  return cudaSuccess;
}

}  // extern "C"
