// Cuts a job into slabs of rows. Each slab is a job of its own, so that a
// device can copy in, compute and copy out at the same time.
#ifndef QUANTD_KERNELS_DEVICE_SLABS_H_
#define QUANTD_KERNELS_DEVICE_SLABS_H_

#include <cstddef>
#include <vector>

#include "kernels/device/recipe.h"
#include "quantd/plan.h"

namespace quantd {

struct Slab {
  Plan plan;
  // The byte offsets of the slab's tensors in the tensors of the whole, in the
  // order of plan.inputs() and plan.outputs(). The offset is 0 for tensors that
  // all slabs write identically, such as a given amax.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

// Cuts into slabs of about `bytes` of input, from the first row to the last,
// that together give the bytes of the whole. Returns no slabs if rows depend on
// each other, as for a computed amax or a transposed copy, or if there would be
// only one slab.
std::vector<Slab> CutIntoSlabs(const Plan& plan, const Recipe& recipe,
                               size_t bytes);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_SLABS_H_
