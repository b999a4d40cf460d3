// CUDA's threads on the host. A launch runs its CTAs one after the other, and
// the threads of a CTA as fibers, one at a time, in an order that can be
// changed. A fiber runs until it waits for others. So if a barrier is missing,
// threads read data that does not exist yet.
#ifndef QUANTD_TESTS_EMULATION_THREADS_H_
#define QUANTD_TESTS_EMULATION_THREADS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace emulation {

struct Thread {
  uint3 thread;
  uint3 block;
  dim3 block_size;
  dim3 grid_size;
  unsigned linear;               // the thread's number in the CTA
  std::shared_ptr<void> copies;  // ThreadCopies (copies.h)
};

// The running thread. Only valid within a launch.
extern Thread* current;

// Lets other threads run. A waiting thread calls this until it can go on. If no
// thread makes progress, the process ends with a message.
void Yield();
// Records that the running thread has made progress.
void GotOn();

// Waits until all lanes of `mask` have called this, each with `size` bytes (at
// most 64). Returns the bytes of all 32 lanes, which the caller must copy at
// once.
const std::byte* Exchange(unsigned mask, const void* mine, size_t size);

// Waits at a barrier of the CTA until `threads` threads have arrived.
void Barrier(unsigned number, unsigned threads);

// Dynamic shared memory of the running CTA.
extern std::byte* dynamic_shared;

// Convert pointers to shared memory to 32-bit addresses, and back.
uint32_t ToShared(const void* p);
std::byte* FromShared(uint32_t address);

// Calls `check` whenever a CTA has ended.
void AtEndOfCta(void (*check)());

// Runs a kernel to its end.
void Run(dim3 grid, dim3 block, size_t shared,
         const std::function<void()>& kernel);

template <typename Shared, typename Stream, typename... Formal,
          typename... Actual>
void Launch(dim3 grid, dim3 block, Shared shared, Stream,
            void (*kernel)(Formal...), const Actual&... arguments) {
  Run(grid, block, static_cast<size_t>(shared), [&] { kernel(arguments...); });
}

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_THREADS_H_
