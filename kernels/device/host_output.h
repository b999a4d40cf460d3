// Small parts of a Quantize's output that the host computes for every device:
// given amaxes, scales of FP8 tensors, histories, and the whole output of an
// empty tensor.
#ifndef QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
#define QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_

#include <cstddef>

#include "kernels/device/recipe.h"
#include "kernels/device/task.h"
#include "quantd/plan.h"

namespace quantd {

// Whether the host writes a part of the output after the kernels, by
// WriteGlobalScales or WriteHistory, or all of it, by WriteEmpty.
bool HostWrites(const Plan& plan, const Recipe& recipe);

// Writes the values of one given amax.
void WriteGivenAmax(const Plan& plan, const AmaxOutput& amax,
                    const JobBases& bases);

// Writes the scale of every FP8 tensor of the task: inverted in the output, and
// as it is for the encoder. The amaxes of the task must have been written.
void WriteTensorScales(const Plan& plan, const Recipe& recipe,
                       const QuantizeTask& task);

// Writes the global scales or divisors that a profile's library stores, from
// the amaxes in the output. Returns the number of groups for which it writes 1,
// because the library's value would make their scales NaN.
int64_t WriteGlobalScales(const Plan& plan, const JobBases& bases);

// Writes the rolled histories and the next scales, if the plan has them. Until
// then the next scales hold this call's amaxes.
void WriteHistory(const Plan& plan, const Recipe& recipe,
                  const JobBases& bases);

// Writes every output of a plan whose tensor is empty, as if its groups were
// empty groups of a larger tensor.
void WriteEmpty(const Plan& plan, const Recipe& recipe, const JobBases& bases);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
