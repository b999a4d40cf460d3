// Results that the kernels of a job accumulate. The host reads them after the
// kernels are done.
#ifndef QUANTD_KERNELS_CUDA_FINDINGS_H_
#define QUANTD_KERNELS_CUDA_FINDINGS_H_

#include <cstddef>

#include "kernels/cuda/args.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/error_sums.h"

namespace quantd::cuda {

struct Findings {
  // `found.seen` covers the whole input. `found` also holds the maxima, unless
  // the plan is grouped: then Prepared::found() holds those of each group.
  Found found;
  ErrorSums sums[2];  // of the rowwise and of the columnwise copy
};

// Bytes of the findings that a job uses.
inline size_t FindingsBytes(const Recipe& recipe) {
  return recipe.statistics ? sizeof(Findings) : sizeof(Found);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_FINDINGS_H_
