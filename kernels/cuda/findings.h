// What a job's kernels find out, for the host to read when they are done.
#ifndef QUANTD_KERNELS_CUDA_FINDINGS_H_
#define QUANTD_KERNELS_CUDA_FINDINGS_H_

#include <cstddef>
#include <variant>

#include "kernels/cuda/launch.h"
#include "kernels/plan/error_statistics.h"
#include "kernels/plan/plan.h"

namespace quantd::cuda {

struct Findings {
  // `seen` is of the whole input; the maxima are too, unless it is grouped.
  Found found;
  ErrorSums sums[2];  // of the rowwise and of the columnwise copy
};

inline bool WantsStatistics(const Plan& plan) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  return o != nullptr && o->statistics;
}

// Bytes of the findings that a plan has a use for.
inline size_t FindingsBytes(const Plan& plan) {
  return WantsStatistics(plan) ? sizeof(Findings) : sizeof(Found);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_FINDINGS_H_
