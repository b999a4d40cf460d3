// How a thread waits for a job.
#ifndef QUANTD_KERNELS_CUDA_JOB_WAIT_H_
#define QUANTD_KERNELS_CUDA_JOB_WAIT_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "kernels/cuda/device.h"

namespace quantd::cuda {

// A copy of more bytes is waited for without keeping the core busy: a thread
// sleeps for as long as
// the fastest link takes at least, looks again and again for a while, then
// between naps, and blocks if all that was not enough. One that blocks from the
// start is woken a third of a millisecond late on some machines.
inline constexpr size_t kSleepBytes = size_t{1} << 20;
inline constexpr size_t kLinkBytesPerMicrosecond = 64 << 10;
inline constexpr std::chrono::microseconds kLook{500};
inline constexpr std::chrono::microseconds kNap{20};
inline constexpr int kNaps = 1000;

// Waits for the work that is queued on `last`, whose end the slot's kDone
// marks. The work copies so many bytes, the first of them not before `since`:
// queueing much takes long, because a queue of CUDA's has room for a thousand
// things.
inline cudaError_t Await(const Slot& slot, cudaStream_t last, size_t bytes,
                         std::chrono::steady_clock::time_point since) {
  if (bytes <= kSleepBytes) return cudaStreamSynchronize(last);
  std::this_thread::sleep_until(
      since + std::chrono::microseconds(bytes / kLinkBytesPerMicrosecond));
  const auto end = std::chrono::steady_clock::now() + kLook;
  const cudaEvent_t done = slot.marks[Slot::kDone];
  cudaError_t state = cudaEventQuery(done);
  while (state == cudaErrorNotReady && std::chrono::steady_clock::now() < end) {
    state = cudaEventQuery(done);
  }
  for (int i = 0; i < kNaps && state == cudaErrorNotReady; ++i) {
    std::this_thread::sleep_for(kNap);
    state = cudaEventQuery(done);
  }
  return state == cudaErrorNotReady ? cudaEventSynchronize(done) : state;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_WAIT_H_
