// A job in slabs of rows, each of which is a job of its own: for devices that
// take in, compute and give out at the same time.
#ifndef QUANTD_KERNELS_DEVICE_SLABS_H_
#define QUANTD_KERNELS_DEVICE_SLABS_H_

#include <cstddef>
#include <vector>

#include "kernels/device/recipe.h"
#include "quantd/plan.h"

namespace quantd {

struct Slab {
  Plan plan;
  // The bytes where its tensors begin in those of the whole, in the order of
  // plan.inputs() and plan.outputs(). Tensors that all slabs write alike, as an
  // amax that was given, begin at 0 in each.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

// Slabs of about `bytes` of input, from the first row to the last, that
// together make the very bytes of the whole. Empty where rows need one another,
// as for an amax that is yet to be found or for a transposed copy, and where
// there would be but one.
std::vector<Slab> CutIntoSlabs(const Plan& plan, const Recipe& recipe,
                               size_t bytes);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_SLABS_H_
