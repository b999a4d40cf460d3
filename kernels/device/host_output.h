// The small parts of a Quantize's output that the host computes for all
// devices: given amaxes, scales of FP8 tensors, histories, and the whole output
// of an empty tensor.
#ifndef QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
#define QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_

#include <cstddef>

#include "kernels/device/recipe.h"
#include "kernels/device/task.h"
#include "quantd/plan.h"

namespace quantd {

// Whether the host writes output: a part of it after the kernels, with
// WriteGlobalScales or WriteHistory, or all of it with WriteEmpty.
bool HostWrites(const Plan& plan, const Recipe& recipe);

// Writes the values of a given amax.
void WriteGivenAmax(const Plan& plan, const AmaxOutput& amax,
                    const JobBases& bases);

// Writes the scale of every FP8 tensor of the task: its stored form into the
// output, and the scale itself into scratch, for the encoder. The amaxes of the
// task must already be written.
void WriteTensorScales(const Plan& plan, const Recipe& recipe,
                       const QuantizeTask& task);

// Writes the global scales or divisors that a profile's library stores, from
// the amaxes in the output. Returns the number of groups for which it wrote 1,
// because the library's value would make their scales NaN.
int64_t WriteGlobalScales(const Plan& plan, const JobBases& bases);

// Writes the rolled histories and the next scales, if the plan has them. Before
// the call, the tensor of next scales holds this call's amaxes.
void WriteHistory(const Plan& plan, const Recipe& recipe,
                  const JobBases& bases);

// Writes every output of a plan whose tensor is empty, as if its groups were
// empty groups of a larger tensor.
void WriteEmpty(const Plan& plan, const Recipe& recipe, const JobBases& bases);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HOST_OUTPUT_H_
