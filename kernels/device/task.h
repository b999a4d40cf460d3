// Makes the kernel arguments of a plan's Quantize or Dequantize: parameters,
// and for every group the addresses of its input, codes, scales and amaxes.
// They are the same for all devices.
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

// The addresses of a job's blocks, in one address space.
struct JobBases {
  const std::byte* in = nullptr;  // plan.input_bytes()
  std::byte* out = nullptr;       // plan.output_bytes()
  std::byte* scratch = nullptr;   // plan.scratch_bytes()
  const float* signs = nullptr;   // signs of the plan's rotation
  // Lent tensors, which replace parts of `in` and `out`; may be null.
  const LentMemory* lent = nullptr;

  // The address of one of plan.inputs() or plan.outputs().
  const std::byte* Input(const Plan& plan, const TensorSpec& spec) const;
  std::byte* Output(const Plan& plan, const TensorSpec& spec) const;
  // The address of an output byte, given its offset in the plan's output.
  std::byte* OutputAt(const Plan& plan, size_t offset) const;
};

struct QuantizeTask {
  EncodeParams params;
  std::vector<GroupTask> groups;
};
// Parameters of a Quantize, shared by all groups.
EncodeParams MakeEncodeParams(const Plan& plan);
QuantizeTask MakeQuantizeTask(const Plan& plan, const JobBases& bases);

struct DequantizeTask {
  DequantizeParams params;
  // Only one copy is set; `x` of a group is its first output row.
  std::vector<GroupTask> groups;
};
DequantizeTask MakeDequantizeTask(const Plan& plan, const JobBases& bases);

// Output bytes that no kernel writes and that must be zeroed first: the padding
// of scales and, if outputs lie in one block, the gaps between them.
std::vector<ZeroRun> PaddingOf(const Plan& plan);
std::vector<ZeroRun> GapsOf(const Plan& plan);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_TASK_H_
