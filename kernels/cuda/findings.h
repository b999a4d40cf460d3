// What a job's kernels find out, for the host to read when they are done.
#ifndef QUANTD_KERNELS_CUDA_FINDINGS_H_
#define QUANTD_KERNELS_CUDA_FINDINGS_H_

#include <cstddef>

#include "kernels/cuda/args.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/error_sums.h"

namespace quantd::cuda {

struct Findings {
  // `seen` is of the whole input; the maxima are too, unless it is grouped.
  Found found;
  ErrorSums sums[2];  // of the rowwise and of the columnwise copy
};

// Bytes of the findings that a job has a use for.
inline size_t FindingsBytes(const Recipe& recipe) {
  return recipe.statistics ? sizeof(Findings) : sizeof(Found);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_FINDINGS_H_
