// Which kernels a plan takes: the tuned ones where they can do it, else those
// for every format. Decided once, before a job has memory.
#ifndef QUANTD_KERNELS_CUDA_ROUTE_H_
#define QUANTD_KERNELS_CUDA_ROUTE_H_

#include "kernels/plan/plan.h"

namespace quantd::cuda {

struct Route {
  // Maxima that must be found: of the input; after the rotation of the rows
  // and of the columns; of every row and every column.
  bool plain = false;
  bool rotated[2] = {};
  bool lines[2] = {};
  bool tuned_amax = false;

  bool copies = false;  // something is encoded or decoded
  bool tuned_copies = false;

  bool groups = false;  // a kernel wants the list of groups

  bool maxima() const {
    return plain || rotated[0] || rotated[1] || lines[0] || lines[1];
  }
};
Route MakeRoute(const Plan& plan);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ROUTE_H_
