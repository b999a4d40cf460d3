// Findings of a job's kernels, which the host reads when they are done.
#ifndef QUANTD_KERNELS_CUDA_FINDINGS_H_
#define QUANTD_KERNELS_CUDA_FINDINGS_H_

#include <cstddef>

#include "kernels/cuda/args.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/error_sums.h"

namespace quantd::cuda {

struct Findings {
  // `seen` is for the whole input; so are the maxima, unless it is grouped.
  Found found;
  ErrorSums sums[2];  // for the rowwise and for the columnwise copy
};

// Bytes of the findings that a job uses.
inline size_t FindingsBytes(const Recipe& recipe) {
  return recipe.statistics ? sizeof(Findings) : sizeof(Found);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_FINDINGS_H_
