// A stream on GPU 0 for tests with CUDA.
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

  // Work queued from now on waits for Release, for a minute at most.
  void Hold();
  void Release();
  // Queues a copy of host bytes into the GPU's memory.
  void Write(void* to, absl::Span<const std::byte> bytes);
  // The content once all queued work has been done.
  std::vector<std::byte> Read(const void* from, size_t bytes);

  // A cudaEvent_t, with or without support for other processes; valid as long
  // as the stream.
  void* MakeEvent(bool for_others = true);
  void Record(void* event);
  void WaitFor(void* event);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_GPU_STREAM_H_
