// Waits for the end of a job.
#ifndef QUANTD_KERNELS_CUDA_JOB_WAIT_H_
#define QUANTD_KERNELS_CUDA_JOB_WAIT_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "kernels/cuda/device.h"

namespace quantd::cuda {

// While more than kSleepBytes are copied, Await keeps the core free: it sleeps
// for the time that the fastest link needs, polls for kLook, polls kNaps times
// with a sleep of kNap before each, and finally blocks. A thread that blocks
// from the start wakes up a third of a millisecond late on some machines.
inline constexpr size_t kSleepBytes = size_t{1} << 20;
inline constexpr size_t kLinkBytesPerMicrosecond = 64 << 10;
inline constexpr std::chrono::microseconds kLook{500};
inline constexpr std::chrono::microseconds kNap{20};
inline constexpr int kNaps = 1000;

// Waits for the work that is queued on `last` and ends with the slot's mark
// kDone. The work copies `bytes` in one direction and began after `since`,
// which may be long ago: a CUDA stream holds about a thousand entries, so
// queueing more of them waits.
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
