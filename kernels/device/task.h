// From a plan's Quantize or Dequantize to what kernels take: parameters, and
// for every group the addresses of its input, codes, scales and amaxes. Made
// once, for any device.
#ifndef QUANTD_KERNELS_DEVICE_TASK_H_
#define QUANTD_KERNELS_DEVICE_TASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/arith/encode.h"
#include "kernels/device/backend.h"
#include "kernels/device/group_task.h"
#include "kernels/plan/geometry.h"
#include "quantd/plan.h"

namespace quantd {

// The addresses of a job's bytes, in one address space.
struct JobBases {
  const std::byte* in = nullptr;  // plan.input_bytes()
  std::byte* out = nullptr;       // plan.output_bytes()
  std::byte* scratch = nullptr;   // plan.scratch_bytes()
  const float* signs = nullptr;   // of the plan's rotation
  // What lies by itself, if anything does, and not in `in` or `out`.
  const LentMemory* lent = nullptr;

  // One of plan.inputs() and one of plan.outputs().
  const std::byte* Input(const Plan& plan, const TensorSpec& spec) const;
  std::byte* Output(const Plan& plan, const TensorSpec& spec) const;
  // A byte of an output by its offset in the plan's.
  std::byte* OutputAt(const Plan& plan, size_t offset) const;
};

struct QuantizeTask {
  EncodeParams params;
  std::vector<GroupTask> groups;
};
// What all groups of a Quantize share.
EncodeParams MakeEncodeParams(const Plan& plan);
QuantizeTask MakeQuantizeTask(const Plan& plan, const JobBases& bases);

struct DequantizeTask {
  DequantizeParams params;
  // Only the one copy is there; `x` of a group is its first output row.
  std::vector<GroupTask> groups;
};
DequantizeTask MakeDequantizeTask(const Plan& plan, const JobBases& bases);

// Bytes of the output that no kernel writes, to be zeroed first: the padding of
// scales; and, where outputs lie in one block, the gaps between them.
std::vector<ZeroRun> PaddingOf(const Plan& plan);
std::vector<ZeroRun> GapsOf(const Plan& plan);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_TASK_H_
