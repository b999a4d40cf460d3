// The choice of the kernels that compute a plan on a CUDA device. It is made
// only here, once for each plan, in plain C++ that needs neither a GPU nor the
// toolkit; launchers (kernels/cuda/launch.h) execute it. kernels/KERNELS.md
// explains the rules.
#ifndef QUANTD_KERNELS_CUDA_CHOICE_H_
#define QUANTD_KERNELS_CUDA_CHOICE_H_

#include <string>
#include <string_view>

#include "kernels/cuda/kernels.h"
#include "kernels/device/recipe.h"
#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd::cuda {

struct KernelChoice {
  AmaxKernel amax = AmaxKernel::kNone;
  EncodeKernel encode = EncodeKernel::kNone;
  DecodeKernel decode = DecodeKernel::kNone;
  RotateKernel rotate = RotateKernel::kNone;
  DbiasKernel dbias = DbiasKernel::kNone;
  ErrorsKernel errors = ErrorsKernel::kNone;

  bool operator==(const KernelChoice&) const = default;

  // Whether maxima are found in a list of groups, not in a single tensor.
  bool searches_groups() const { return amax >= AmaxKernel::kLines; }
  // Whether one of the kernels reads the list of groups.
  bool reads_groups() const;
};

// Chooses the kernels for a device with `size` of shared memory. A kernel that
// streams tiles of rotated fp32 does not fit into kSmall.
KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe,
                           SharedMemory size = SharedMemory::kLarge);

// Names of the kernels, as in kernels/cuda/kernels.h; "-" for kNone.
std::string_view Name(AmaxKernel kernel);
std::string_view Name(EncodeKernel kernel);
std::string_view Name(DecodeKernel kernel);
std::string_view Name(RotateKernel kernel);
std::string_view Name(DbiasKernel kernel);
std::string_view Name(ErrorsKernel kernel);

// The chosen kernels, in the order in which they run: "amax PlainAmax, encode
// EncodeNvfp4Rows".
std::string ToString(const KernelChoice& choice);

// The type of code table that an encoder uses for an input type.
CodeTable CodeTableOf(EncodeKernel kernel, DType input);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CHOICE_H_
