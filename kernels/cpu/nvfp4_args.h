// Makes what the functions for plain NVFP4 take of one group of a task.
#ifndef QUANTD_KERNELS_CPU_NVFP4_ARGS_H_
#define QUANTD_KERNELS_CPU_NVFP4_ARGS_H_

#include "kernels/arith/encode.h"
#include "kernels/cpu/tiles.h"
#include "kernels/device/group_task.h"

namespace quantd::cpu {

// Both read the copies' amaxes, which must have been written. They are for
// plans whose Recipe is plain_nvfp4.
QuantizeArgs Nvfp4Args(const EncodeParams& params, const GroupTask& group);
DequantizeArgs Nvfp4Args(const DequantizeParams& params,
                         const GroupTask& group);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_NVFP4_ARGS_H_
