// CUDA's threads on the host: a launch runs its CTAs one after the other, the
// threads of one as fibers by turns, in an order that can be changed. A fiber
// runs until it waits for others: what a barrier is missing for is then seen
// by those that come too early.
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
  unsigned linear;               // of the CTA
  std::shared_ptr<void> copies;  // asynchronous ones: see copies.h
};

// The thread that runs; only within a launch.
extern Thread* current;

// Lets other threads run. A thread that waits calls this until it may go on; if
// no thread makes progress, the process ends with a message.
void Yield();
// Says that the thread that runs got on.
void GotOn();

// Waits until all lanes of `mask` are here, with up to 64 bytes each. Returns
// 32 times `size` bytes, of all lanes, good until the next call of this lane.
const std::byte* Exchange(unsigned mask, const void* mine, size_t size);

// A barrier of the CTA: `threads` of them must come before they go on.
void Barrier(unsigned number, unsigned threads);

// Dynamic shared memory of the CTA that runs.
extern std::byte* dynamic_shared;

// Addresses of shared memory, in 32 bits.
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
