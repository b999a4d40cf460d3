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

  // Makes work that is queued later wait for Release, for at most a minute.
  void Hold();
  void Release();
  // Queues a copy of host bytes into the GPU's memory.
  void Write(void* to, absl::Span<const std::byte> bytes);
  // Returns the bytes at `from` once all queued work is done.
  std::vector<std::byte> Read(const void* from, size_t bytes);

  // Returns a cudaEvent_t that the stream owns, with interprocess support if
  // `for_others`.
  void* MakeEvent(bool for_others = true);
  void Record(void* event);
  void WaitFor(void* event);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_GPU_STREAM_H_
