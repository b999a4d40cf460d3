// Which functions of the table (kernels/cpu/tiles.h) compute a plan on the CPU,
// whatever its instruction set: decided here alone, once for each plan.
// kernels/KERNELS.md is the same as a page.
#ifndef QUANTD_KERNELS_CPU_CHOICE_H_
#define QUANTD_KERNELS_CPU_CHOICE_H_

#include <string>
#include <string_view>

#include "kernels/cpu/tiles.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/plan.h"

namespace quantd::cpu {

// Finds the maxima of the input.
enum class AmaxKernel {
  kNone,
  kTiles,  // of groups, rotated by 16 or not at all
  kLines,  // of any dimension, and of lines
};

enum class DecodeKernel {
  kNone,
  kNvfp4Rows,
  kNvfp4Columns,
  kLines,  // every format and rotation
};

enum class RotateKernel {
  kNone,
  kBlocks,  // dimension 16
  kLines,   // the larger ones
};

struct KernelChoice {
  AmaxKernel amax = AmaxKernel::kNone;
  EncodeChoice encode = {};
  DecodeKernel decode = DecodeKernel::kNone;
  RotateKernel rotate = RotateKernel::kNone;
  bool dbias = false;  // SumChunk, then SumChunks

  bool operator==(const KernelChoice&) const = default;
};

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe);

// Names of the functions, as in their sources; "-" for none.
std::string_view Name(AmaxKernel kernel);
std::string_view Name(EncodeKernel kernel);
std::string_view Name(DecodeKernel kernel);
std::string_view Name(RotateKernel kernel);

// What is chosen, in the order in which it runs: "amax Amax, encode rows
// QuantizeFp8Rows, encode columns QuantizeLines".
std::string ToString(const KernelChoice& choice);

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_CHOICE_H_
