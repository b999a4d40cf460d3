// Which kernels compute a plan on a CUDA device: decided here alone, once for
// each plan, in plain C++ that needs neither a GPU nor the toolkit. Launchers
// (kernels/cuda/launch.h) execute it. kernels/KERNELS.md is the same as a page.
//
// An enumerator is named after its kernel: kNvfp4Rows is EncodeNvfp4Rows.
#ifndef QUANTD_KERNELS_CUDA_CHOICE_H_
#define QUANTD_KERNELS_CUDA_CHOICE_H_

#include <string>
#include <string_view>

#include "kernels/device/recipe.h"
#include "kernels/plan/plan.h"

namespace quantd::cuda {

// Finds the maxima of the input.
enum class AmaxKernel {
  kNone,
  kPlain,        // max |x| of one tensor
  kRows,         // also that of its rotated rows
  kTiles,        // also that of its rotated columns
  kTensorCores,  // likewise, of bf16 and by tensor cores
  kLines,        // any list of groups and maxima of lines, nothing rotated
  kSpans,        // likewise, and any rotation
};

// Makes codes and scales.
enum class EncodeKernel {
  kNone,
  // NVFP4 of one fp32 tensor, the rowwise copy alone.
  kQuantizeRows,
  // NVFP4 of bf16: kernels/cuda/encode/nvfp4/NOTES.md.
  kNvfp4Rows,
  kNvfp4Tiles,
  kNvfp4Squares,
  kNvfp4ScaledRows,
  kNvfp4Stochastic,
  kNvfp4FourOverSix,
  kNvfp4UnderGlobal,  // the rowwise copy of profiles other than te
  // FP8 and MXFP8 of bf16: kernels/cuda/encode/fp8/NOTES.md.
  kFp8Runs,
  kFp8Rows,
  kFp8Tiles,
  kFp8Strips,
  kFrame,  // most of the rest: kernels/cuda/encode/frame/NOTES.md
  kSpans,  // every format, option and dtype
};

enum class DecodeKernel {
  kNone,
  kRows,
  kColumnsInPlace,  // columnwise MXFP8, which is not stored as the transpose
  kRotatedRows,
  kRotatedInPlace,
  kColumns,
  kSpans,  // every format, rotation and profile
};

enum class RotateKernel {
  kNone,
  kBlocks,  // dimension 16
  kSpans,   // the larger ones
};

// Makes the sums of each 128 rows, which SumGroups then adds up.
enum class DbiasKernel {
  kNone,
  kEncoder,  // The encoder makes them on its way.
  kChunks,
};

// Makes statistics of what the encoder has made.
enum class ErrorsKernel {
  kNone,
  kTiles,  // of copies that are not rotated, from whole runs of sixteen
  kSpans,
};

struct KernelChoice {
  AmaxKernel amax = AmaxKernel::kNone;
  EncodeKernel encode = EncodeKernel::kNone;
  DecodeKernel decode = DecodeKernel::kNone;
  RotateKernel rotate = RotateKernel::kNone;
  DbiasKernel dbias = DbiasKernel::kNone;
  ErrorsKernel errors = ErrorsKernel::kNone;

  bool operator==(const KernelChoice&) const = default;

  // Whether maxima are found in a list of groups, not in one tensor.
  bool searches_groups() const;
  // Whether one of them reads the list of groups.
  bool reads_groups() const;
};

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe);

// Names of the kernels, as in their sources; "-" for none.
std::string_view Name(AmaxKernel kernel);
std::string_view Name(EncodeKernel kernel);
std::string_view Name(DecodeKernel kernel);
std::string_view Name(RotateKernel kernel);
std::string_view Name(DbiasKernel kernel);
std::string_view Name(ErrorsKernel kernel);

// What is chosen, in the order in which it runs: "amax PlainAmax, encode
// EncodeNvfp4Rows".
std::string ToString(const KernelChoice& choice);

// A plan with all that is decided about it. The plan must outlive it.
struct Work {
  explicit Work(const Plan& p)
      : plan(p), recipe(MakeRecipe(p)), choice(ChooseKernels(p, recipe)) {}

  const Plan& plan;
  const Recipe recipe;
  const KernelChoice choice;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CHOICE_H_
