// What the tuned NVFP4 functions take, of one group of a task.
#ifndef QUANTD_KERNELS_CPU_NVFP4_ARGS_H_
#define QUANTD_KERNELS_CPU_NVFP4_ARGS_H_

#include "kernels/arith/encode.h"
#include "kernels/cpu/tiles.h"
#include "kernels/device/group_task.h"

namespace quantd::cpu {

// Both read the copies' amaxes, which are to be settled. The plan is one of
// those that IsPlainNvfp4 (kernels/device/task.h) is true of.
QuantizeArgs Nvfp4Args(const EncodeParams& params, const GroupTask& group);
DequantizeArgs Nvfp4Args(const DequantizeParams& params,
                         const GroupTask& group);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_NVFP4_ARGS_H_
