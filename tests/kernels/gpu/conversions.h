// Compares converting machine instructions with the arithmetic, on a GPU.
#ifndef QUANTD_TESTS_KERNELS_GPU_CONVERSIONS_H_
#define QUANTD_TESTS_KERNELS_GPU_CONVERSIONS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace quantd {

enum class Conversion { kToE2M1, kFromE2M1, kToE4M3, kToE5M2 };

// Numbers whose bits are eight neighbouring patterns, or the patterns
// themselves for kFromE2M1. Group i begins with pattern 8 * (first + i * step).
struct PatternGroups {
  uint64_t first;
  uint64_t step;
  uint64_t count;
};

// The result of a comparison.
struct Compared {
  bool instruction;  // the GPU has one
  uint64_t differing;
  uint32_t pattern;  // one that differs
};

cudaError_t Compare(Conversion conversion, const PatternGroups& groups,
                    Compared* compared);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_GPU_CONVERSIONS_H_
