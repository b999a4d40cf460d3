// Cuts a job into slabs of rows, each a job of its own, for devices that copy
// in, compute and copy out at the same time.
#ifndef QUANTD_KERNELS_DEVICE_SLABS_H_
#define QUANTD_KERNELS_DEVICE_SLABS_H_

#include <cstddef>
#include <vector>

#include "kernels/device/recipe.h"
#include "quantd/plan.h"

namespace quantd {

struct Slab {
  Plan plan;
  // The bytes where the slab's tensors begin in those of the whole, in the
  // order of plan.inputs() and plan.outputs(). Tensors that all slabs write
  // alike, such as a given amax, begin at 0 in each.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

// Cuts into slabs of about `bytes` of input, from the first row to the last,
// that together give the bytes of the whole. Empty if rows depend on each
// other, as for a computed amax or a transposed copy, and if there would be
// only one slab.
std::vector<Slab> CutIntoSlabs(const Plan& plan, const Recipe& recipe,
                               size_t bytes);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_SLABS_H_
