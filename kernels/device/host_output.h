// The small parts of a Quantize's output that a host computes, for every device
// alike: amaxes that were given, scales of FP8 tensors, histories, and all of
// the output of a tensor that is empty.
#ifndef QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
#define QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_

#include <cstddef>

#include "kernels/device/recipe.h"
#include "kernels/device/task.h"
#include "quantd/plan.h"

namespace quantd {

// Whether a host adds to an output of kernels, by WriteGlobalScales or
// WriteHistory, or writes all of it, by WriteEmpty.
bool HostWrites(const Plan& plan, const Recipe& recipe);

// Writes the values of one amax that was given.
void WriteGivenAmax(const Plan& plan, const AmaxOutput& amax,
                    const JobBases& bases);

// Writes the scale of every FP8 tensor of the task, inverted as the output has
// it and as it is for the encoder. The amaxes of the task have been written.
void WriteTensorScales(const Plan& plan, const Recipe& recipe,
                       const QuantizeTask& task);

// Writes the global scales or divisors that a profile's library stores, of the
// amaxes in the output. Returns of how many groups it stores one that makes NaN
// of their scales: 1 is written for them.
int64_t WriteGlobalScales(const Plan& plan, const JobBases& bases);

// Writes the rolled histories and the next scales, where the plan has them. The
// places of the next scales hold this call's amaxes until then.
void WriteHistory(const Plan& plan, const Recipe& recipe,
                  const JobBases& bases);

// Writes every output of a plan whose tensor is empty: what its groups would
// have, were they empty ones of a larger tensor.
void WriteEmpty(const Plan& plan, const Recipe& recipe, const JobBases& bases);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
