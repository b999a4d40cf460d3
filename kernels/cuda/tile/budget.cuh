// Selects instances of kernels that stream tiles by the shared memory of a CTA.
#ifndef QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_
#define QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_

#include <type_traits>

#include "kernels/cuda/queue.h"

namespace quantd::cuda {

// The type that belongs to kSize.
template <SharedMemory kSize, typename Large, typename Medium, typename Small>
using BySize = std::conditional_t<
    kSize == SharedMemory::kLarge, Large,
    std::conditional_t<kSize == SharedMemory::kMedium, Medium, Small>>;
#ifdef __CUDA_ARCH__
// Whether the target of this compilation has instances for kSize.
template <SharedMemory kSize>
inline constexpr bool kIsBuilt = __CUDA_ARCH__ / 100 == 9 ||
                                         __CUDA_ARCH__ / 100 == 10
                                     ? kSize == SharedMemory::kLarge
                                     : kSize == SharedMemory::kSmall ||
                                           (kSize == SharedMemory::kMedium &&
                                            __CUDA_ARCH__ < 860);
#endif

// Calls `launch` with the device's SharedMemory as a constant.
template <typename F>
cudaError_t ForSharedMemory(const Queue& queue, const F& launch) {
  using enum SharedMemory;
  switch (queue.shared_memory) {
    case kLarge:
      return launch(std::integral_constant<SharedMemory, kLarge>{});
    case kMedium:
      return launch(std::integral_constant<SharedMemory, kMedium>{});
    default:
      return launch(std::integral_constant<SharedMemory, kSmall>{});
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_BUDGET_CUH_
