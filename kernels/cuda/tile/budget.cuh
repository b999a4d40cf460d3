// How much shared memory the kernels that stream tiles have to spend, which
// decides what they look like.
#ifndef QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_
#define QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_

#include <type_traits>

#include "kernels/cuda/queue.h"

namespace quantd::cuda {

// Shared memory of a CTA in KiB. A kernel is built in a form for each size, and
// for an architecture only in those that its devices take.
enum class SharedMemory { kSmall = 99, kMedium = 163, kLarge = 227 };
constexpr int BytesOf(SharedMemory size) {
  return static_cast<int>(size) * 1024;
}
template <SharedMemory kSize, typename Large, typename Medium, typename Small>
using BySize = std::conditional_t<
    kSize == SharedMemory::kLarge, Large,
    std::conditional_t<kSize == SharedMemory::kMedium, Medium, Small>>;
#ifdef __CUDA_ARCH__
template <SharedMemory kSize>
inline constexpr bool kIsBuilt = __CUDA_ARCH__ / 100 == 9 ||
                                         __CUDA_ARCH__ / 100 == 10
                                     ? kSize == SharedMemory::kLarge
                                     : kSize == SharedMemory::kSmall ||
                                           (kSize == SharedMemory::kMedium &&
                                            __CUDA_ARCH__ < 860);
#endif

// Calls `launch` with a constant of the device's SharedMemory.
template <typename F>
cudaError_t ForSharedMemory(const F& launch) {
  int bytes = 0;
  const cudaError_t error =
      FindAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &bytes);
  if (error != cudaSuccess) return error;
  using enum SharedMemory;
  if (bytes >= BytesOf(kLarge)) {
    return launch(std::integral_constant<SharedMemory, kLarge>{});
  }
  if (bytes >= BytesOf(kMedium)) {
    return launch(std::integral_constant<SharedMemory, kMedium>{});
  }
  return launch(std::integral_constant<SharedMemory, kSmall>{});
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_
