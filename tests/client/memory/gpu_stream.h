// A stream of this process's on GPU 0, of tests that CUDA is there for.
#ifndef QUANTD_TESTS_CLIENT_MEMORY_GPU_STREAM_H_
#define QUANTD_TESTS_CLIENT_MEMORY_GPU_STREAM_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace quantd {

int GpuCount();

class GpuStream {
 public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;

  // What is queued from now on waits for Release, a minute at most.
  void Hold();
  void Release();
  // Queues the way of the host's bytes into the GPU's memory.
  void Write(void* to, absl::Span<const std::byte> bytes);
  // What lies there once all that is queued has been done.
  std::vector<std::byte> Read(const void* from, size_t bytes);

  // A cudaEvent_t that other processes may know, or one that they may not; as
  // long as the stream is there.
  void* MakeEvent(bool for_others = true);
  void Record(void* event);
  void WaitFor(void* event);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_GPU_STREAM_H_
