// What the host writes of a job's output, when the device is done with it.
#ifndef QUANTD_KERNELS_CUDA_HOST_OUTPUT_H_
#define QUANTD_KERNELS_CUDA_HOST_OUTPUT_H_

#include <cstddef>

#include "kernels/plan/plan.h"

namespace quantd::cuda {

// All of the output of a plan whose tensor is empty: what its groups would
// have, were they empty ones of a larger tensor.
void WriteEmpty(const Plan& plan, std::byte* out);

// The rolled histories and the next scales, where the plan has them. The places
// of the next scales hold this call's amaxes until then.
void WriteHistory(const Plan& plan, std::byte* out);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_HOST_OUTPUT_H_
